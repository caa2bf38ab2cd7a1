"""The file of pages: cache, messages, the two kinds of index, free pages, and generations.

A transaction changes pages in the `cache` only (`changes`).  A checkpoint writes them to `page.db` and begins the
next `generation`.
"""
