"""The binlog module of jPOS-EE itself, compiled from its source for one run, beside ours: see `make jpos`."""
