"""The steps from one version of the tables to the next.

Version 1 is the first: there is no step yet. A step is a tuple of DDL statements under the version it leads to;
`warehouse.versions` runs the missing ones in order, in one transaction, when it opens an older lake for writing.
A new column is nullable, since the rows of older versions do not have it.
"""

STEPS: dict[int, tuple[str, ...]] = {}
"""DDL statements by the schema version that they lead to."""
