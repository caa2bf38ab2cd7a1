"""The commands for a log, one module each, and modules of `tail`, `cat`, `stat` and `monitor` only."""
