"""The peers, one a file: the alternatives to binlog, and the floors that nothing can beat."""
