insert into {table:name} select * from one_row
