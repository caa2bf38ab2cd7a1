"""The canary of the crash harness: planted mistakes are found, and what that kept is found again by its command.

Here one for each part of the harness; `python -m stress.crash.canaries` has all of them, from several seeds.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stress.crash.planted import PATCHES, PLANTED, PlantingError, apply_patch
from stress.crash.worker import PARTS
from tests.support.checkout import ROOT
from tests.support.crashing import crash

# None that has the C compiled anew, and each the first of those.
IN_PYTHON = [planted for planted in PLANTED.values() if not (planted.patch and "native/" in planted.patch.read_text())]
ONE_OF_A_PART = {planted.part: planted.name for planted in reversed(IN_PYTHON)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_A_PART.values())
def test_a_planted_mistake_is_found(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "kept"
    done = crash("--planted", name, "--parts", PLANTED[name].part, "--stop", "--processes", 1, "--keep", kept)
    assert done.returncode == 1, done.stdout
    assert "VIOLATION" in done.stdout
    (command,) = {line.partition("replay: ")[2] for line in done.stdout.splitlines() if "replay: " in line}
    _, *arguments = shlex.split(command)
    again = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stdout + again.stderr
    kept_name = (Path(arguments[-1]) / "wrong.txt").read_text().splitlines()[0].split(":")[0]
    assert _numbers_aside(kept_name) in _numbers_aside(again.stdout)


def _numbers_aside(text: str) -> str:
    """A kept kill is tried again at the calls beside it too, for no two runs make the same calls."""
    return re.sub(r"\d+", "N", text)


def test_there_is_one_for_each_part() -> None:
    assert set(ONE_OF_A_PART) == set(PARTS)


@pytest.mark.parametrize("patch", sorted(PATCHES.iterdir()), ids=lambda patch: patch.stem)
def test_every_patch_is_of_a_planted_mistake_and_applies(patch: Path) -> None:
    assert patch.stem in PLANTED
    apply_patch(patch, ROOT, write=False)


def test_a_patch_is_put_where_its_lines_are_now(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("new\na\nb\nc\n" + "x\n" * 9 + "b\n")
    patch = tmp_path / "some.patch"
    patch.write_text("--- a/code.py\n+++ b/code.py\n@@ -2,2 +2,2 @@\n-b\n+changed\n c\n@@ -13 +13,2 @@\n b\n+added\n")
    apply_patch(patch, tmp_path)
    assert (tmp_path / "code.py").read_text() == "new\na\nchanged\nc\n" + "x\n" * 9 + "b\nadded\n"
    with pytest.raises(PlantingError, match=r"code\.py has no such lines"):
        apply_patch(patch, tmp_path)


def test_every_mistake_is_a_patch_or_a_switch_of_the_recorder() -> None:
    switches = (PATCHES.parent / "recorder" / "mistakes.c").read_text()
    assert [each.name for each in PLANTED.values() if not each.patch and f'"{each.name}"' not in switches] == []


def test_a_mistake_that_is_not_there_is_refused() -> None:
    done = crash("--planted", "no-such")
    assert done.returncode == 2


@pytest.mark.slow
def test_the_command_for_all_of_them_says_what_was_found_and_what_not() -> None:
    command = [sys.executable, "-m", "stress.crash.canaries", "--seeds", "7", "--only"]
    found = [*command, "no-data-sync", "--no-clean-runs"]
    done = subprocess.run(found, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-data-sync, seed 7: found after" in done.stdout
    too_short = [*command, "store-end-not-erased", "--seconds", "1"]
    done = subprocess.run(too_short, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "store-end-not-erased, seed 7: NOT FOUND after" in done.stdout
    assert "no mistake, seed 7: nothing in" in done.stdout
