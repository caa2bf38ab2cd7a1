"""Closed files of logs in remote file systems."""
