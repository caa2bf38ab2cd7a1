"""The files of a journal: their listing, their reuse, and the quarantine for damaged ones."""
