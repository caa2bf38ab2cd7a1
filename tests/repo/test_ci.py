""".ci/run: runs the test command as an ordinary user, and the tests that need root as root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import checkout

# A project in which `make test` prints its folder and user, and creates a Python that prints the same.
MAKEFILE = """
quick:
	@echo "make quick by $$(id -u)"

test:
	@echo "make test by $$(id -u) in $$PWD with input from $$(readlink /proc/self/fd/0)"
	@touch "$$HOME/mine" "$$TMPDIR/mine" mine
	@mkdir -p .venv/bin && cp python .venv/bin/python
	@exit 7
"""
PYTHON = '#!/bin/sh\necho "python $* by $(id -u) in $PWD"\nexit 0\n'


@pytest.fixture
def project() -> Iterator[Path]:
    """Create the project in a folder that any user can read."""
    folder = Path(tempfile.mkdtemp(prefix="binlog-ci-test-", dir="/var/tmp"))
    (folder / ".ci").mkdir()
    shutil.copy(checkout.ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ci(project: Path, **more: object) -> tuple[int, str]:
    """Run .ci/run as CI does; return the exit code and its output."""
    command = ["bash", ".ci/run"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    return done.returncode, done.stdout + done.stderr


def test_an_ordinary_user_runs_the_test_commands_in_the_checkout(project: Path) -> None:
    checkout.give_away(project)
    user = checkout.NOBODY if os.geteuid() == 0 else os.geteuid()
    environment = {**os.environ, "HOME": str(project), "TMPDIR": str(project)}
    code, said = ci(project, env=environment, user=user if os.geteuid() == 0 else None, stdin=subprocess.DEVNULL)
    assert code == 2, said  # make's own exit code for a failed recipe
    assert 0 <= said.find(f"make quick by {user}\n") < said.find(f"make test by {user} in {project} ")
    assert "python" not in said


def test_a_failure_of_the_quick_tests_fails_all(project: Path) -> None:
    makefile = MAKEFILE.replace("exit 7", "exit 0").replace('make quick by $$(id -u)"', 'quick"; exit 5')
    (project / "Makefile").write_text(makefile)
    checkout.give_away(project)
    environment = {**os.environ, "HOME": str(project), "TMPDIR": str(project)}
    user = checkout.NOBODY if os.geteuid() == 0 else None
    assert ci(project, env=environment, user=user, stdin=subprocess.DEVNULL)[0] == 1


@pytest.mark.root
def test_root_has_an_ordinary_user_test_a_clone_and_leaves_nothing(project: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (project / "uncommitted").write_text("")
    for arguments in (["init", "-q"], ["add", "Makefile", ".ci", "python"], ["commit", "-q", "-m", "all"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=project, check=True)

    code, said = ci(project, stdin=subprocess.DEVNULL)

    assert code == 2, said
    [(user, clone)] = re.findall(r"make test by (\d+) in (\S+) with input from /dev/null", said)
    assert int(user) != 0
    assert f"make quick by {user}\n" in said
    assert clone != str(project)
    assert f"python -m pytest -m root by 0 in {clone}" in said
    assert not Path(clone).parent.exists()
    assert not (project / "mine").exists()
    with pytest.raises(KeyError):
        pwd.getpwuid(int(user))
