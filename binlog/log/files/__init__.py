"""Which files a log has: the open one, the next one and how it is prepared, the closed ones, and what a header says."""
