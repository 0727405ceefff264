{column:name} = ${parameter:fragment}
