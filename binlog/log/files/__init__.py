"""The files of a log: the headers, the prepared next file, cutovers, the closed files."""
