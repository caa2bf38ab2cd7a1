"""Bytes to values and back: one module per thing on disk, no input or output.

`python -m binlog.format --check` fails where docs/format.md or native/layout.h
no longer says what these tables say; `--write` writes both anew.
"""
