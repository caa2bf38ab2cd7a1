"""Ingesting files of records that were written outside of the log."""
