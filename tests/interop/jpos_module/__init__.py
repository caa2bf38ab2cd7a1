"""The binlog module of jPOS-EE itself, compiled from its source for one run, used together with ours: see `make
jpos`."""
