"""What is in the file of pages: the cache, messages, the two indexes, free pages, and generations."""
