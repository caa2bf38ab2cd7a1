"""The commands for people and systems that watch a log: monitor, metrics and web, and the texts that they show.

binlog/watching finds the state of a log, and binlog/metrics the series of `binlog metrics`.  `live_log` follows that
state as the log grows, with the trends of lags.  `tables` has followers, groups, members and files as aligned lines,
which `monitor_view` draws with rich, and binlog/cli/top with textual.  `texts` has followers, groups and the seal as
text and as JSON.
`web_log` is a log as the page of `binlog web` shows it, which binlog/web serves.
"""
