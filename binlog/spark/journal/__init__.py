"""Reading a journal on Spark: a row is a record as it lies in a file, and what became of it."""
