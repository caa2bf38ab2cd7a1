"""Writing to a log with Spark."""
