"""Appending messages to the commit log, and flushing them to the disk."""
