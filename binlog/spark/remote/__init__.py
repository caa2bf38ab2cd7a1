"""Closed files of logs in remote file systems.

`binlog.moving.remote_directory` opens a URL with pyarrow or fsspec; `remote_log` lists the files there; `file_copy`
fetches only those parts of a file that a task reads.
"""
