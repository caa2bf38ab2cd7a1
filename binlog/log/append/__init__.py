"""Appending to a log: sessions, the open file, the background thread, idempotent producers."""
