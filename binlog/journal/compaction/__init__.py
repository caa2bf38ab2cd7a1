"""Compaction: rewrites live records of mostly dead files, and the maintenance thread that runs it."""
