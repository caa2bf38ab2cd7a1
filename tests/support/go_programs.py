"""Go programs of the tests: built once, with the modules and the build cache in the run's own folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def built(source: Path, factory: pytest.TempPathFactory) -> Path:
    """Build a program, and return its path; skip if Go is not installed.

    source: a folder with a module, or a file that needs only the standard library.
    Tests that call this belong to the xdist group "go": its worker downloads and compiles the shared parts once.
    """
    compiler = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")
    if compiler is None:
        pytest.skip("go is not installed")
    shared = factory.getbasetemp() / "go"
    environment = {
        **os.environ, "GOPATH": str(shared / "path"), "GOCACHE": str(shared / "cache"), "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
    }  # fmt: skip
    folder = factory.mktemp(source.name)
    copy = folder / "source"
    if source.is_dir():
        shutil.copytree(source, copy)
    else:
        copy.mkdir()
        shutil.copy(source, copy)
    command = [compiler, "build", "-o", str(folder / "program"), "." if source.is_dir() else source.name]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"
