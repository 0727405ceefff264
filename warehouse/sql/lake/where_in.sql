{column:name} in (select unnest(${parameter:fragment}))
