"""Reading a log with Spark."""
