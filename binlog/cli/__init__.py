"""The command line, `binlog`: append to, read, follow, check and repair logs from a terminal or a script.

It uses only the public names of the package.
"""
