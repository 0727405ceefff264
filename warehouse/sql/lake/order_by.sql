order by {columns:names}
