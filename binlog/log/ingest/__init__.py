"""Ingesting files of records that were written outside of the log.

A process writes an `external_file` without taking any lock of the log.  `ingestion` makes such files the next files
of the log; if it dies half-way, the next writer finishes it from the `ingest_record`.
"""
