"""The index of each log file: reading, building and checking it, and verifying what readers get against it."""
