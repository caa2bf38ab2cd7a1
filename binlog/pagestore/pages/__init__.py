"""The file of pages: cache, messages, the two kinds of index, free pages, and generations."""
