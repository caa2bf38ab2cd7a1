"""The benchmark: binlog and its peers, measured side by side, with no assertions: `make bench`, python -m
stress.bench."""
