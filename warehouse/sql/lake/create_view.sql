create or replace view {name:name} as
{body:fragment}
