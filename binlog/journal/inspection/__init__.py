"""Looking at a journal from outside: check, stat, survey, record reader, export and import."""
