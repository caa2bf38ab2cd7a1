"""Change sealed logs, and show that each change is found: python -m stress.tamper [--changes N] [--seed S], or `make
tamper`.

Each change is made to a sealed log of its own, so that `binlog check` finds nothing; then `binlog seal verify` must
find it, with the checkpoint that an anchor has.  Before the change there must be no finding, also if records were
removed by retention or lost before, and statements tell of it.
Exit codes: 0 all were found, 1 some were not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import binlog
from binlog.seal import Finding, SigningKey, verify
from stress.memory import folder_in_memory
from stress.tamper.changes import tamper
from stress.tamper.sealed_log import Life, SealedLog

_CHANGES_A_LOG = 10


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
    with TemporaryDirectory(prefix="binlog-tamper-", dir=folder_in_memory()) as folder:
        for number, (name, wrong) in enumerate(change_many(Path(folder), key, chance, options.changes)):
            done.update(name.split(" and "))
            if wrong is not None:
                problems += 1
                print(f"change {number}, {name}: {wrong}")
    for name, count in sorted(done.items()):
        print(f"{count:6} {name}")
    print(f"{options.changes} changes, {problems} not found")
    return 1 if problems else 0


def change_many(folder: Path, key: SigningKey, chance: random.Random, count: int) -> Iterator[tuple[str, str | None]]:
    """Change sealed logs in a folder, `count` times; yield for each change what `change_one` returns.

    Each change is made to a copy of a log; some changes are made to copies of the same one.
    """
    lives = [*[Life.NOTHING] * 4, *list(Life)[1:]]
    for number in range(count):
        if number % _CHANGES_A_LOG == 0:
            shutil.rmtree(folder / "made", ignore_errors=True)
            (folder / "made").mkdir()
            log = SealedLog(folder / "made", key, chance, lives[number // _CHANGES_A_LOG % len(lives)])
            yield from unchanged(log)
        yield change_one(log.copied(folder / "changed"), chance)
        shutil.rmtree(folder / "changed")


def unchanged(log: SealedLog) -> Iterator[tuple[str, str | None]]:
    """Yield what is wrong with a log that was not changed, if anything."""
    found = [*findings(log), *binlog.check(log.path)]
    if found:
        yield "nothing", f"a log that was not changed has findings: {found}"


def findings(log: SealedLog) -> list[Finding]:
    """Verify a log with the checkpoint that an anchor has."""
    return verify(log.path, str(log.key.verifier), checkpoints=[log.anchored]).findings


def change_one(log: SealedLog, chance: random.Random) -> tuple[str, str | None]:
    """Change a log.

    Returns the name of the change, and what is wrong: None if `check` finds nothing, and `verify` what it must.
    """
    name, rules = tamper(log, chance)
    problems = binlog.check(log.path)
    if problems:
        return name, f"check finds it: {problems}"
    found = {finding.rule for finding in findings(log)}
    if not found & rules:
        return name, f"found by {sorted(found)}, and not by one of {sorted(rules)}"
    return name, None


if __name__ == "__main__":
    sys.exit(main())
