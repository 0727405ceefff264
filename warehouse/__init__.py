"""The only reader and writer of tables: the lake, its views, saved questions and audits.

Start at `warehouse.lake.Lake`. Every line of SQL is in a .sql file under `warehouse/sql`.
"""
