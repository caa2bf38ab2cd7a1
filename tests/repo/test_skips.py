"""A skip that tests/allowed_skips.toml does not list fails the run, with xdist and without."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import checkout
from tests.support.skips import ALLOWED, load_allowed

pytestmark = [pytest.mark.slow, pytest.mark.turn(0)]

SKIPPING = """
import pytest, unittest

def test_runs(): pass

@pytest.mark.skip(reason="by mark")
def test_marked(): pass

def test_called(): pytest.skip("by call")

@pytest.fixture
def skipping(): pytest.skip("in a fixture")

def test_fixture(skipping): pass

class TestOld(unittest.TestCase):
    def test_old(self): self.skipTest("the old way")

@pytest.mark.xfail(reason="known to fail")
def test_expected_failure(): assert False
"""

MODULE = "import pytest\n\npytest.importorskip('no_such_module')\n\n\ndef test_lost(): pass\n"


GROUPED = """
import pytest

@pytest.mark.xdist_group("one")
def test_called(): pytest.skip("by call")
"""


LISTING = """
[[skip]]
test = "test_skipping.py::test_called"
reason = "by *"
why = "to show it"
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest with only our plugin; return the exit code and its output."""
    command = [sys.executable, "-m", "pytest", "--rootdir", str(folder), "-c", str(folder / "pytest.ini")]
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = '{checkout.ROOT}'\n")
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.support.skips"]\n')
    done = subprocess.run(
        [*command, *arguments, str(folder)], capture_output=True, text=True, cwd=checkout.ROOT, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["alone", "xdist"])
def test_a_skip_that_is_not_listed_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    code, said = run(tmp_path, *workers)
    assert code == 1
    for reason in ("by mark", "by call", "in a fixture", "the old way"):
        assert f"skipped ({reason})" in said
    assert "known to fail" not in re.findall(r"skipped \((.*)\), and", said)
    assert "tests run: 4, skipped: 0" in said  # the call and the old way were begun, and the expected failure counts


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["alone", "xdist"])
def test_a_module_that_skips_itself_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "test_other.py").write_text("def test_runs(): pass\n")
    code, said = run(tmp_path, *workers)
    assert code != 0
    assert "no_such_module" in said


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2", "--dist", "loadgroup")], ids=["alone", "xdist"])
def test_a_listed_skip_is_counted_and_passes(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_skipping.py").write_text(GROUPED)
    (tmp_path / "test_other.py").write_text("def test_runs(): pass\n")
    (tmp_path / "list.toml").write_text(LISTING)
    code, said = run(tmp_path, "-o", "allowed_skips=list.toml", *workers)
    assert code == 0, said
    assert "tests run: 1, skipped: 1" in said


ROOT_ONLY = """
import os, pytest

@pytest.mark.root
def test_needs_root(): assert os.geteuid() == 0

def test_needs_nothing(): pass
"""


ROOT_LISTING = """
[[skip]]
test = "*"
reason = "needs root"
why = "to show it"
"""


@pytest.mark.parametrize("user", [pytest.param("root", marks=pytest.mark.root), "ordinary"])
def test_tests_that_need_root_are_skipped_for_others_and_counted_at_the_end(tmp_path: Path, user: str) -> None:
    (tmp_path / "test_root.py").write_text(ROOT_ONLY)
    (tmp_path / "list.toml").write_text(ROOT_LISTING)
    stand_in = "" if user == "root" else "import os\nos.geteuid = lambda: 1000\n"
    (tmp_path / "test_first.py").write_text(stand_in)
    code, said = run(tmp_path, "-o", "allowed_skips=list.toml")
    assert code == 0, said
    assert f"tests run: {2 if user == 'root' else 1}" in said
    assert ("not run on this machine: 1, because: needs root" in said) is (user == "ordinary")


def test_every_entry_says_why() -> None:
    for entry in load_allowed(ALLOWED):
        assert entry.test.startswith("tests/")
        assert entry.reason.strip("*")
        assert entry.why
