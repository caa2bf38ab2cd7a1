"""Bytes to values and back: one module per thing on disk, no input or output.

`python -m binlog.format --check` fails where docs/format.md or native/layout.h
no longer says what these tables say; `--write` writes both anew.
"""

try:
    import binlog._codec  # noqa: F401 - to say what is wrong if it is missing
except ModuleNotFoundError as error:
    raise ImportError("binlog's compiled part is missing: install the package (pip install .)") from error
