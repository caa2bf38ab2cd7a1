"""Change sealed logs, and show that each change is found: python -m stress.tamper [--changes N] [--seed S], or `make
tamper`.

Each change is made to a sealed log of its own, so that `binlog check` finds nothing; then `binlog seal verify` must
find it, with the checkpoint that an anchor has.  Before the change there must be no finding.
Exit codes: 0 all were found, 1 some were not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import binlog
from binlog.seal import SigningKey, verify
from stress.memory import folder_in_memory
from stress.tamper.changes import tamper
from stress.tamper.sealed_log import SealedLog


def main() -> int:
    """Make the changes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stress.tamper", description=__doc__)
    parser.add_argument("--changes", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the changes")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    chance = random.Random(options.seed)
    key = SigningKey.generate("example.org/tampered")
    done: Counter[str] = Counter()
    problems = 0
    for number in range(options.changes):
        folder = Path(tempfile.mkdtemp(prefix="binlog-tamper-", dir=folder_in_memory()))
        try:
            name, wrong = change_one(folder, key, chance)
        finally:
            shutil.rmtree(folder)
        done.update(name.split(" and "))
        if wrong is not None:
            problems += 1
            print(f"change {number}, {name}: {wrong}")
    for name, count in sorted(done.items()):
        print(f"{count:6} {name}")
    print(f"{options.changes} changes, {problems} not found")
    return 1 if problems else 0


def change_one(folder: Path, key: SigningKey, chance: random.Random) -> tuple[str, str | None]:
    """Make a sealed log in a folder, and change it.

    Returns the name of the change, and what is wrong: None if `check` finds nothing, `verify` finds nothing before the
    change, and afterwards what it must.
    """
    log = SealedLog(folder, key, chance)
    vkey = str(key.verifier)
    before = verify(log.path, vkey, checkpoints=[log.anchored]).findings
    if before:
        return "none", f"a log that was not changed has findings: {before}"
    name, rules = tamper(log, chance)
    problems = binlog.check(log.path)
    if problems:
        return name, f"check finds it: {problems}"
    found = {finding.rule for finding in verify(log.path, vkey, checkpoints=[log.anchored]).findings}
    if not found & rules:
        return name, f"found by {sorted(found)}, and not by one of {sorted(rules)}"
    return name, None


if __name__ == "__main__":
    sys.exit(main())
