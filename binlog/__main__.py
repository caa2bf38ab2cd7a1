"""Run the command line as `python -m binlog`."""

from __future__ import annotations

import sys

from binlog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
