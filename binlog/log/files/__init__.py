"""The files of a log: the headers, the prepared next file, cutovers, the closed files.

`header` is the reader's view of a header, without the lock.  `cutover` closes the open file and gives the
`prepared_file` its name.
"""
