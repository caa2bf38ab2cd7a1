"""The system of a journal."""
