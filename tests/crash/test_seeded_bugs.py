"""Seeded bugs: the crash harness finds them, and its command replays the violation.

One bug for each part of the harness; `python -m stress.crash.canaries` tries all of them, with several seeds.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from stress.crash.parts import PARTS
from stress.crash.seeded_bugs import SEEDED_BUGS, SeedingError
from stress.crash.seeded_bugs.seeded_bug import Change
from tests.support.checkout import ROOT
from tests.support.crash_harness import crash
from tests.support.turns import in_turn

# The first of each part that needs no compilation.
ONE_OF_A_PART = {bug.part: bug.name for bug in reversed(SEEDED_BUGS.values()) if not bug.is_in_c}

# Seeds with which they are found soon; `make canaries` draws its seeds.
_SEED = 4
_SEEDS = {
    "depage-page-removed-first": 3,
    "staged-twice": 3,
    "commitlog-buffers-forgotten": 6,
    "commitlog-unsynced-bytes-trusted": 2,
    "journal-file-id-used-twice": 3,
    "journal-sync-retried": 2,
    "paging-sync-retried": 1,
    "seal-before-durable": 6,
    "seal-state-taken-too-early": 6,
    "commitlog-marker-removed-first": 1,
    "group-acks-not-synced": 3,
    "pagestore-header-first": 7,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(ONE_OF_A_PART.values()))
def test_a_seeded_bug_is_found(tmp_path: Path, name: str) -> None:
    saved = tmp_path / "saved"
    limits = ("--seed", _SEEDS.get(name, _SEED), "--stop", "--processes", 1)
    done = crash("--seeded-bug", name, "--parts", SEEDED_BUGS[name].part, *limits, "--keep", saved)
    assert done.returncode == 1, done.stdout
    assert "VIOLATION" in done.stdout
    (command,) = {line.partition("replay: ")[2] for line in done.stdout.splitlines() if "replay: " in line}
    _, *arguments = shlex.split(command)
    again = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stdout + again.stderr
    case_name = (Path(arguments[-1]) / "wrong.txt").read_text().splitlines()[0].split(":")[0]
    assert _without_numbers(case_name) in _without_numbers(again.stdout)


def _without_numbers(text: str) -> str:
    """Remove the numbers: a saved kill is replayed at neighbouring calls too, because no two runs make the same
    calls."""
    return re.sub(r"\d+", "N", text)


def test_there_is_a_bug_for_each_part() -> None:
    assert set(ONE_OF_A_PART) == set(PARTS)


def test_every_bug_can_be_seeded_and_compiles(tmp_path: Path) -> None:
    """Compile the C of all bugs with one call of the compiler."""
    sources = []
    for bug in SEEDED_BUGS.values():
        for path, text in bug.changed(ROOT).items():
            if path.endswith(".py"):
                compile(text, f"{path} ({bug.name})", "exec")
            else:
                sources.append(tmp_path / f"{bug.name}-{Path(path).name}")
                sources[-1].write_text(text)
    folders = {header.parent for header in (ROOT / "native").rglob("*.h")}
    headers = [f"-I{folder}" for folder in (*sorted(folders), sysconfig.get_path("include"))]
    command = ["cc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *headers, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_change_is_refused_unless_its_text_is_in_the_function_once() -> None:
    source = (
        "def other():\n    f()\n\n\nclass A:\n    def one(self):\n        if f():\n            return 1\n        f()\n"
    )
    changed = Change("a.py", "A.one", "if f():\n    return 1", "g()\nh()").apply(source)
    assert changed == "def other():\n    f()\n\n\nclass A:\n    def one(self):\n        g()\n        h()\n        f()\n"
    for function, old, message in (
        ("A.one", "f()", "2 occurrences"),
        ("A.one", "g()", "0 occurrences"),
        ("two", "f()", "no function"),
    ):
        with pytest.raises(SeedingError, match=message):
            Change("a.py", function, old, "").apply(source)
    c = "static int one(int a)\n{\n    return a;\n}\n\nint one_more(int a)\n{\n    if (one(a))\n        return a;\n}\n"
    assert Change("a.c", "one", "return a;", "return 0;").apply(c) == c.replace("return a;", "return 0;", 1)
    with pytest.raises(SeedingError, match="0 functions more"):
        Change("a.c", "more", "return a;", "").apply(c)


def test_every_bug_without_a_change_is_a_switch_of_the_recorder() -> None:
    switches = (ROOT / "stress/crash/preloaded/recorder_library/bugs.c").read_text()
    assert [each.name for each in SEEDED_BUGS.values() if each.is_switch and f'"{each.name}"' not in switches] == []


def test_an_unknown_bug_is_refused() -> None:
    done = crash("--seeded-bug", "no-such")
    assert done.returncode == 2


@pytest.mark.slow
def test_the_canaries_command_reports_which_bugs_were_found() -> None:
    command = [sys.executable, "-m", "stress.crash.canaries", "--seeds", "7", "--only"]
    found = [*command, "no-data-sync", "--no-clean-runs"]
    done = subprocess.run(found, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-data-sync, seed 7: found after" in done.stdout
    too_short = [*command, "commitlog-end-not-erased", "--seconds", "1"]
    done = subprocess.run(too_short, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "commitlog-end-not-erased, seed 7: NOT FOUND after" in done.stdout
    assert "no bug, seed 7: nothing in" in done.stdout
