"""The command that checks or writes the files made from the layouts, in a checkout of the project."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from binlog.format.tables import generated_files


def main() -> int:
    """Run the command; return 0 if all files are current or were written, 1 if one is stale."""
    parser = argparse.ArgumentParser(prog="python -m binlog.format", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="fail if a file differs from the tables")
    action.add_argument("--write", action="store_true", help="write the files that differ")
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
