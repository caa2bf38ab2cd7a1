"""The thread sanitizer over writers as threads.  `make asan` and `make ubsan` take minutes and are not run here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _needs_the_sanitizer() -> None:
    """Skip if gcc has no such file: it then prints the name unchanged."""
    asked = ["gcc", "-print-file-name=libtsan.so"]
    if "/" not in subprocess.run(asked, capture_output=True, text=True, check=True).stdout:
        pytest.skip("the compiler has no thread sanitizer")


def _threads(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stress.sanitize", "thread", "--appends", "400", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_threads_in_place_of_processes_race_for_nothing() -> None:
    done = _threads()
    assert done.returncode == 0, done.stderr
    assert "2401 records; 0 problems" in done.stderr


def test_a_seeded_race_is_found() -> None:
    done = _threads("--seeded-race")
    assert done.returncode not in (0, 2)
    assert "WARNING: ThreadSanitizer: data race" in done.stderr
