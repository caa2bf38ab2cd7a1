"""The files of a journal: which there are, which are in use, and which are set aside as damaged."""
