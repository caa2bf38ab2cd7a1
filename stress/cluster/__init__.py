"""A Spark cluster on this machine, whose workers are killed during jobs."""
