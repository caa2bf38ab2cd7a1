"""Reading a commit log on Spark: a row is a message, and a position has a queue offset for each queue."""
