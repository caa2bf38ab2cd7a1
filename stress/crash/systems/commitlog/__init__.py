"""The system of a commit log."""
