delete from {table:name}
