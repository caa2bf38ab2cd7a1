"""The pipeline under kills: processes append, Spark follows into Parquet and into another log, and is killed."""
