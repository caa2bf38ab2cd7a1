"""Inspection of a journal that another process may have open: check, stat, survey, records, export, import.

`inspection` reads the whole journal as of one moment; the other modules turn the result into statistics, records and
lines of text.  Only an import writes, and it writes a new journal.
"""
