"""Compaction: rewriting what is alive in files that are mostly dead, and the maintenance thread."""
