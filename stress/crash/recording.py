"""Recording a workload: running it under the recorder, saving and loading."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stress.crash.disk_model.disk import Node, Tree
from stress.crash.marks import Values
from stress.crash.preloaded.preload import Preload
from stress.crash.preloaded.trace import HEADER_BYTES, Event, parse_trace, used_bytes

LOG = "log"
"""The directory of the log or store, relative to the root of a recording; the root holds its name."""

_SECONDS_MAX = 60


class RecordingError(Exception):
    """The workload itself failed, so there is nothing to check."""


class Crashed(NamedTuple):
    """A state to recover: the seed of its records, the content of the disk, and the marks until then."""

    seed: str
    tree: Tree
    given: tuple[Values, ...]


@dataclass(frozen=True)
class Recording:
    """One recorded run.

    seed: of the workload, and of its records.
    initial: the durable files at the start.  given: marks that count from the start.
    """

    workload: str
    seed: str
    initial: Mapping[str, Node]
    given: tuple[Values, ...]
    trace: bytes

    def events(self) -> list[Event]:
        """Return the calls and marks."""
        return parse_trace(self.trace)

    def save(self, folder: Path) -> None:
        """Save it in a folder."""
        about = {
            "workload": self.workload,
            "seed": self.seed,
            "given": self.given,
            "initial": {
                path: [node.inode, None if node.data is None else base64.b64encode(node.data).decode()]
                for path, node in self.initial.items()
            },
        }
        (folder / "recording.json").write_text(json.dumps(about, indent=1))
        (folder / "trace").write_bytes(self.trace)


def load_recording(folder: Path) -> Recording:
    """Load a recording that `save` saved."""
    about = json.loads((folder / "recording.json").read_text())
    return Recording(
        workload=about["workload"],
        seed=about["seed"],
        initial={
            path: Node(inode, None if data is None else base64.b64decode(data))
            for path, (inode, data) in about["initial"].items()
        },
        given=tuple(map(tuple, about["given"])),
        trace=(folder / "trace").read_bytes(),
    )


def build(tree: Tree, root: Path) -> None:
    """Make the root, if it is missing, and everything in it."""
    root.mkdir(exist_ok=True)
    for path in sorted(tree):
        data = tree[path]
        if data is None:
            os.mkdir(root / path)
        else:
            fd = os.open(root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            os.write(fd, data)
            os.close(fd)


def record(
    part: str,
    workload: str,
    seeds: list[str],
    folder: Path,
    preload: Preload,
    prepare: Callable[[Path, str], list[Values]] | None,
) -> list[Recording]:
    """Run a part's workload once for each seed, in an empty folder, and leave nothing there.

    prepare: makes the durable files that exist before, and returns their marks.  Raises: RecordingError.
    """
    runs = []
    for index, seed in enumerate(seeds):
        root = folder / str(index)
        root.mkdir()
        runs.append(_Run(seed, root, tuple(prepare(root / LOG, seed)) if prepare else ()))
    return _record(part, workload, runs, preload.environment("first"))


def record_recoveries(part: str, crashed: list[Crashed], folder: Path, preload: Preload) -> list[Recording]:
    """Run the recovery of each crashed state, in another boot of the machine."""
    runs = []
    for index, (seed, tree, given) in enumerate(crashed):
        root = folder / str(index)
        build(tree, root)
        runs.append(_Run(seed, root, given))
    return _record(part, "recovery", runs, preload.environment("second"))


class _Run(NamedTuple):
    seed: str
    root: Path
    given: tuple[Values, ...]


def _record(part: str, workload: str, runs: list[_Run], environment: dict[str, str]) -> list[Recording]:
    before = [_snapshot(run.root) for run in runs]
    _run(part, workload, runs, environment)
    recordings = []
    for run, initial in zip(runs, before, strict=True):
        path = run.root.with_suffix(".trace")
        recordings.append(Recording(workload, run.seed, initial, run.given, used_part(path)))
        shutil.rmtree(run.root)
        path.unlink()
    return recordings


def _run(part: str, workload: str, runs: list[_Run], environment: dict[str, str]) -> None:
    """Run the workload, once for each seed, in a process that forks its own."""
    arguments = [argument for run in runs for argument in (run.seed, str(run.root))]
    command = [sys.executable, "-m", "stress.crash.recorded", part, workload, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            said, _ = process.communicate(timeout=_SECONDS_MAX)
        except BaseException:
            process.kill()  # its forked processes end with this worker
            raise
    if process.returncode != 0:
        text = f"workload {workload} {runs[0].seed} ended with exit code {process.returncode}"
        raise RecordingError(f"{text}:\n{said.decode(errors='replace')}")


def _snapshot(root: Path) -> dict[str, Node]:
    nodes = {"": Node(root.stat().st_ino, None)}
    for path in sorted(root.rglob("*")):
        nodes[str(path.relative_to(root))] = Node(path.stat().st_ino, None if path.is_dir() else path.read_bytes())
    return nodes


def used_part(path: Path) -> bytes:
    """Return the part of a trace that was written; the file is far larger, and sparse."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        return head + file.read(used_bytes(head) - len(head))
