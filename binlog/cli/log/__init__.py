"""The commands for a log, one module each, and the modules that several of them use.

A command calls a public function of `binlog` and prints the result.  `tail` and `cat` find the last records with
`last_records`; `followers` has the position files that `tail --position` writes and `stat` reads; `monitor` takes
snapshots with `log_watch` and draws them with `monitor_view`.
"""
