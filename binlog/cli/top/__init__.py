"""`binlog top`: a screen with keys that watches logs, built with textual.

`app` puts the screen together: `log_state` draws the state of the logs with their followers and groups, and
`record_list` the records, which `record_feed` reads and filters.  `record_screen` shows one record, and `group_screen`
a consumer group with its dead letters; `group_changes` changes a group.  `line_list` is the list that all of them are
made of, and `dialogs` asks questions.  Text from a log reaches the screen only through `line_list` and `plain`, which
make it printable, and never as markup.
"""
