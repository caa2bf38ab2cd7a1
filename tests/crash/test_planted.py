"""The canary of the crash harness: every planted mistake is found, and what it kept is found again by its command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stress.crash.planted import PATCHES, PLANTED, apply_patch
from tests.support.checkout import ROOT
from tests.support.crashing import crash


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "kept"
    done = crash("--planted", name, "--parts", PLANTED[name].part, "--stop", "--processes", 1, "--keep", kept)
    assert done.returncode == 1, done.stdout
    assert "VIOLATION" in done.stdout
    (command,) = {line.partition("replay: ")[2] for line in done.stdout.splitlines() if "replay: " in line}
    _, *arguments = shlex.split(command)
    again = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stdout + again.stderr
    assert (Path(arguments[-1]) / "wrong.txt").read_text().splitlines()[0].split(":")[0] in again.stdout


@pytest.mark.parametrize("patch", sorted(PATCHES.iterdir()), ids=lambda patch: patch.stem)
def test_every_patch_is_of_a_planted_mistake_and_applies(patch: Path) -> None:
    assert patch.stem in PLANTED
    apply_patch(patch, ROOT, "--check")


def test_a_mistake_that_is_not_there_is_refused() -> None:
    done = crash("--planted", "no-such")
    assert done.returncode == 2
