"""The file formats of a page store."""
