"""The commands for a log."""
