"""Shipping: closed files of a log, copied to a directory or an object store.

`target` copies single files to either, so that only complete ones have their names; `receipts` says which files of the
log have arrived.  `shipping` goes through the closed files of a log, and removes those that have arrived if it is asked
to.
"""
