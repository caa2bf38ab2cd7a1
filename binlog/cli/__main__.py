"""`python -m binlog.cli`, where the command `binlog` is not on the path."""

from __future__ import annotations

import sys

from binlog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
