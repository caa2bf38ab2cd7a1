"""Logs in remote file systems."""
