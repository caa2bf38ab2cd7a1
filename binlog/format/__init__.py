"""Conversion between bytes and values, one module for each kind of file; no input or output.

Each layout is a table in one of these modules.  `python -m binlog.format --check` fails if docs/format.md or
native/layout.h differ from the tables; `--write` writes both again.
"""

try:
    import binlog._codec  # noqa: F401 - for a helpful error if it is missing
except ModuleNotFoundError as error:
    raise ImportError("the compiled module binlog._codec is missing: install the package (pip install .)") from error
