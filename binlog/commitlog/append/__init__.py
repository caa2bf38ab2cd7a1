"""How a message gets into the commit log, and when it reaches the disk."""
