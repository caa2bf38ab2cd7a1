"""Run one saved violation again: `python -m stress.crash.replay FOLDER SCRATCH`, with the recorder preloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stress.crash.parts import PARTS

_SHOWN_MAX = 20


def main() -> int:
    """Print the violations; return 1 if there are any."""
    folder, scratch = map(Path, sys.argv[1:])
    name = json.loads((folder / "part.json").read_text())["part"]
    wrong = PARTS[name].replay(folder, scratch)
    print("\n".join(wrong[:_SHOWN_MAX]) if wrong else "nothing is wrong with it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
