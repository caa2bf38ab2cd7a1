"""Us and the peers, measured side by side: `make bench`, or python -m stress.bench.  It asserts nothing."""
