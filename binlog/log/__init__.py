"""The binary log: many processes append to a directory of files, follow it, and cut over to the next file."""
