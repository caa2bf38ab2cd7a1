"""Archives, which are closed log files compressed: making, reading and repairing them."""
