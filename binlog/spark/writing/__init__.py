"""Writing rows to a log with Spark."""
