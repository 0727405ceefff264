select json_serialize_sql($text)
