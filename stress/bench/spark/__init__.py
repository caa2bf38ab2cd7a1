"""What is measured in Spark: a process of its own that makes the data once and does one job after the other."""
