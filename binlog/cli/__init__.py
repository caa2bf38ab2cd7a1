"""The command `binlog`: a log appended to, read, followed and watched from a terminal or a script.

It uses the public names of the package and nothing else.
"""
