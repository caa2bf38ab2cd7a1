"""The system of a page store."""
