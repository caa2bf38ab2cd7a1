"""Inspection of a journal that another process may have open: check, stat, survey, records, export, import."""
