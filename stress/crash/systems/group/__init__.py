"""The system of consumer groups."""
