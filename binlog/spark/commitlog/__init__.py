"""Reading a commit log's store on Spark: a row is a message, and a position is a queue offset for each queue."""
