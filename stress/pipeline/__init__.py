"""The pipeline under kills: processes append, and a Spark job that copies the log is killed."""
