"""Programs of chance over a journal, held against what should be there."""
