"""The real store in a process: StorePeer.java and Json.java, compiled against the jars of one version."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_KILLED = 137
_HANGS_SECONDS = 120
# Allows version 4 to unmap its files.
_OPENED = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")]


class StorePeer:
    """The real store of one version.  Needs Java 17 and Maven, and Maven's central repository the first time.

    jars: a folder for the jars, filled if it is missing.
    """

    def __init__(self, version: str, jars: Path) -> None:
        self.version = version
        self._jars = jars
        if not jars.exists():
            self._fetch()
        self._classes = tempfile.TemporaryDirectory()
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", self._classes.name, *map(str, HERE.glob("*.java"))]
        subprocess.run(command, check=True)

    def _fetch(self) -> None:
        command = [
            "mvn", "--batch-mode", "--quiet", "--file", HERE / "pom.xml", f"-Drocketmq.version={self.version}",
            "dependency:copy-dependencies", f"-DoutputDirectory={self._jars.absolute()}",
        ]  # fmt: skip
        subprocess.run(list(map(str, command)), check=True)

    def write(self, folder: Path, **settings: object) -> dict[str, Any]:
        """Write a new store with many kinds of messages; return the report."""
        killed = settings.get("how") == "killed"
        return self._run("write", folder, settings=settings, code=_KILLED if killed else 0)

    def feature(self, folder: Path, **settings: object) -> None:
        """Write a few messages into a store that uses a feature of version 5."""
        self._run("feature", folder, settings=settings, code=0)

    def append(self, folder: Path, **settings: object) -> dict[str, Any]:
        """Open a store, append messages with keys to queue 0 of `orders`, and stop cleanly."""
        return self._run("append", folder, settings=settings, code=0)

    def read(self, folder: Path, keys: Sequence[tuple[str, str]], **settings: object) -> dict[str, Any]:
        """Return the report about a store.  keys: the topics and keys to find."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as asked:
            asked.writelines(f"{topic} {key}\n" for topic, key in keys)
            asked.flush()
            return self._run("read", folder, asked.name, settings=settings, code=0)

    def _run(self, *arguments: object, settings: Mapping[str, object], code: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as home:
            out = Path(home, "out.json")
            command = [
                "java", *_OPENED, "-Xmx512m", f"-Duser.home={home}", "-cp", f"{self._classes.name}:{self._jars}/*",
                "StorePeer", *arguments, out, *(f"{name}={value}" for name, value in settings.items()),
            ]  # fmt: skip
            done = subprocess.run(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                timeout=_HANGS_SECONDS,
            )  # fmt: skip
            if done.returncode != code:
                raise RuntimeError(f"the real store ended with {done.returncode}: {done.stdout.decode()[-5000:]}")
            found: dict[str, Any] = json.loads(out.read_text())
        return found
