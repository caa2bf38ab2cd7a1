"""`python -m binlog.format --check | --write`, run in a checkout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from binlog.format.tables import generated_files


def main() -> int:
    """0 when all is fresh, or was written; 1 when a file is stale."""
    parser = argparse.ArgumentParser(prog="python -m binlog.format", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="fail where a file no longer says what the tables say")
    what.add_argument("--write", action="store_true", help="write the files anew")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the project's root")
    options = parser.parse_args()
    stale = 0
    for path, text in generated_files(options.root).items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if options.write:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(options.root)}")
        else:
            stale += 1
            print(f"stale: {path.relative_to(options.root)} (python -m binlog.format --write)", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
