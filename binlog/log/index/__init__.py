"""The index of a log file: reading, building and checking it, and verifying records with it."""
