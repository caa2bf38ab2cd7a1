"""The measurements in Spark: a separate process that makes the data once and runs one job after another."""
