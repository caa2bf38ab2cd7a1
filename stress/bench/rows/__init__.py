"""The rows, one kind of work a file."""
