"""Search the model of group commit with Spin: python -m stress.model.spin [--quick] [--trail] [NAME...].

Prints a table: the variant, its states, their depth, and the finding. Exit codes: 0 all as expected, 1 not so, 2 wrong
usage or no Spin.

Needs `spin` (https://spinroot.com, version 6) and a C compiler, because Spin writes a C program that does the search.
The search is exhaustive within a variant's bounds; one that was cut short is an error, never a clean result.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stress.model.spin_variants import BUGS, BUGS_QUICK, RIGHT, RIGHT_QUICK, Variant

MODEL = Path(__file__).with_name("group_commit.pml")

DEPTH_MAX = 1_000_000
MEMORY_MIB_MAX = 6000
SECONDS_MAX = 540

# `unless`, which models the death of a process, cannot be combined with partial order reduction.
_CC = ("-w", "-DNOREDUCE", "-DCOLLAPSE", "-DNFAIR=3", f"-DMEMLIM={MEMORY_MIB_MAX}")


class SpinError(Exception):
    """A search that did not finish, and therefore proves nothing."""


@dataclass(frozen=True)
class Result:
    """The result of a search; `found` is Spin's own text, None if it found nothing."""

    states: int
    depth: int
    found: str | None


def missing() -> str | None:
    """Return the name of a program that is needed and not installed, if there is one."""
    return next((name for name in ("spin", "cc") if shutil.which(name) is None), None)


def search(variant: Variant, directory: Path, *, depth_max: int = DEPTH_MAX) -> Result:
    """Search a variant; the directory is for the program that Spin writes, and for the trail.

    Blocks for seconds to minutes.  Raises SpinError if the search could not be made, or not finished.
    """
    cycles = variant.looks_for_cycles
    _run(["spin", "-a", *_defines(variant), str(MODEL)], directory)
    _run(
        ["cc", "-O1" if variant.large else "-O0", *_CC, *([] if cycles else ["-DSAFETY"]), "-o", "pan", "pan.c"],
        directory,
    )
    return parse(_run(["./pan", f"-m{depth_max}", *(["-a", "-f"] if cycles else [])], directory))


def explain(variant: Variant, directory: Path) -> str:
    """Return the steps that led to the finding of `search`, as Spin prints them."""
    trail = directory / f"{MODEL.name}.trail"
    return _run(["spin", "-k", str(trail), "-p", *_defines(variant), str(MODEL)], directory)


def parse(output: str) -> Result:
    """Parse the result of a search."""
    found = re.search(r"^pan:\d+: (.*) \(at depth \d+\)$", output, re.MULTILINE)
    totals = re.search(r"depth reached (\d+), errors: (\d+)\n\s*([\d.e+]+) states, stored", output)
    if totals is None or bool(found) != (totals[2] != "0") or "max search depth too small" in output:
        raise SpinError(f"the search did not finish:\n{output}")
    return Result(states=int(float(totals[3])), depth=int(totals[1]), found=found[1] if found else None)


def _defines(variant: Variant) -> list[str]:
    return [f"-D{setting}" for setting in variant.settings]


def _run(command: list[str], directory: Path) -> str:
    """Run a command and return its output."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            timeout=SECONDS_MAX,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise SpinError(f"{error}\n{getattr(error, 'stdout', '')}") from error
    return done.stdout


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stress.model.spin", description="Search the model of group commit."
    )
    parser.add_argument("--quick", action="store_true", help="only the variants that take seconds")
    parser.add_argument("--trail", action="store_true", help="print the steps that lead to a finding")
    parser.add_argument("names", nargs="*", metavar="NAME", help="variants by name (default: all)")
    given = parser.parse_args()
    known = {variant.name: variant for variant in (*RIGHT_QUICK, *RIGHT, *BUGS_QUICK, *BUGS)}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"unknown variant {', '.join(unknown)}; known: {', '.join(known)}")
    quick = (*RIGHT_QUICK, *BUGS_QUICK)
    given.variants = [known[name] for name in given.names] or (quick if given.quick else known.values())
    if program := missing():
        parser.error(f"{program} is not installed")
    return given


def main() -> int:
    """See the module."""
    given = _arguments()
    as_it_must = True
    print(f"{'variant':27}{'states':>11}{'depth':>7}{'seconds':>9}  found")
    for variant in given.variants:
        with tempfile.TemporaryDirectory(prefix="binlog-spin-") as directory:
            began = time.monotonic()
            result = search(variant, Path(directory))
            seconds = time.monotonic() - began
            right = variant.is_right(result.found)
            as_it_must &= right
            found = f"{result.found or 'nothing'}{'' if right else ', which is NOT expected'}"
            print(f"{variant.name:27}{result.states:>11,}{result.depth:>7}{seconds:>9.1f}  {found}", flush=True)
            if given.trail and result.found:
                print(explain(variant, Path(directory)))
    return 0 if as_it_must else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SpinError as error:
        print(f"spin: {error}", file=sys.stderr)
        sys.exit(1)
