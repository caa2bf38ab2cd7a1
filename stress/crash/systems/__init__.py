"""The systems under test: for each, its processes, its marks and its state after a crash (`system.System`)."""
