"""The systems of a queue, and of pages that are depaged into a journal."""
