"""The commands for a log, one module each, and the modules that several of them use.

A command calls a public function of `binlog` and prints the result.  `tail` and `cat` print records through
`binlog/cli/looking`; `position` has the position files that `tail --position` writes.
"""
