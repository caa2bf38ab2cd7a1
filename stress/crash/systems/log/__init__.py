"""The system of a log."""
