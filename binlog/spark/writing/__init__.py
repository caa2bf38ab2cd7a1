"""Writing rows to a log with Spark.

Each task writes one file (`task_output`).  After all tasks have ended, the driver ingests these files in one
idempotent call (`writing`), so that a repeated job adds nothing twice.
"""
