{column:name} is null
