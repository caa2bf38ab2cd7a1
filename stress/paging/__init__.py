"""A queue whose process is killed at random moments, again and again: what was committed comes exactly once."""
