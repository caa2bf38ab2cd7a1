"""The commands for a log, one module each."""
