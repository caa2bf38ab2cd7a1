"""A Java process with the classes of jPOS-EE's binlog module."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_OWN = Path(__file__).parent
_CLASSES = ("BinLog", "BinLogWriter", "BinLogReader")
_PACKAGE = Path("modules/binlog/src/main/java/org/jpos/binlog")


@dataclass(frozen=True)
class Added:
    """A record that the module acknowledged, with the position that it reported."""

    record: bytes
    number: int
    offset: int


def compile_module(source: Path, classes: Path) -> None:
    """Compile the module and our program for it.

    source: a checkout of jPOS-EE, a bare Git repository of it, or a folder with the module's Java files.
    classes: an empty folder.
    Raises: SystemExit if the module or a Java compiler is missing.
    """
    if shutil.which("javac") is None:
        raise SystemExit("this machine has no Java compiler (Debian package: default-jdk-headless)")
    files = classes / "source"
    files.mkdir(parents=True)
    for name in (f"{each}.java" for each in _CLASSES):
        (files / name).write_bytes(_java_file(source, name))
    sources = [*files.glob("*.java"), *_OWN.glob("*.java")]
    subprocess.run(["javac", "-nowarn", "-d", classes, *sources], check=True)


def _java_file(source: Path, name: str) -> bytes:
    for path in (source / name, source / _PACKAGE / name):
        if path.is_file():
            return path.read_bytes()
    command = ["git", "-C", str(source), "show", f"HEAD:{_PACKAGE / name}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{source} has no {_PACKAGE / name}: give a checkout or a repository of jPOS-EE")
    return done.stdout


class JposPeer:
    """One such process, which runs one command at a time."""

    def __init__(self, classes: Path) -> None:
        command = ["java", "-cp", str(classes), "JposPeer"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin_adding(self, log: Path, name: str, count: int, *, cutover_every: int = 0) -> None:
        """Open the log, append `count` records and cut over after each `cutover_every`; `added` waits for the end."""
        self._tell(f"add {log} {name} {count} {cutover_every}")

    def added(self) -> list[Added]:
        """Return the acknowledged records.  Raises: RuntimeError."""
        found = []
        for line in self._answer():
            record, number, offset = line.split(b" ")
            found.append(Added(record, int(number), int(offset)))
        return found

    def read(self, log: Path) -> list[bytes]:
        """Return every record that its reader finds.  Raises: RuntimeError."""
        self._tell(f"read {log}")
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _answer(self) -> list[bytes]:
        assert self._process.stdout is not None
        found: list[bytes] = []
        for line in self._process.stdout:
            if line == b".\n":
                if found and found[-1].startswith(b"error "):
                    raise RuntimeError(found[-1].decode())
                return found
            found.append(line.rstrip(b"\n"))
        raise RuntimeError("the Java process ended")
