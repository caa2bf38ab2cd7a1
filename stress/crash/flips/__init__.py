"""Bit flips: every bit of headers, indexes, archives and small files next to a log, one at a time."""
