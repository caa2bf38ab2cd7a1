"""What is measured, one kind of work a file."""
