"""Closed log files as compressed archives: making, reading and verifying them."""
