"""The workers of one run: starting them, hearing them, and noticing one that died or hangs."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from stress.crash.context import Current, Job
from stress.crash.preload import Preload

_STATE_SECONDS_MAX = 90.0
"""A state is judged in a millisecond, a run recorded in a second: what takes so long does not end."""


class Member:
    """One worker."""

    def __init__(self, job: Job, preload: Preload, tree: Path) -> None:
        self.job = job
        Path(job.scratch).mkdir()
        self.current = Current(Path(job.scratch))
        environment = preload.environment("third")
        environment["BINLOG_RECORDER_MEMORY"] = job.memory  # its own, so that it can remove what its dead left
        environment["PYTHONPATH"] = str(tree)  # a planted copy comes before what is installed
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stress.crash.worker", job.as_json()],
            cwd=tree, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.failure: str | None = None
        self._line = b""

    @property
    def fd(self) -> int:
        """Where its messages come."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def hear(self) -> list[dict[str, Any]] | None:
        """What it says, or None once it has ended."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            code = self.process.wait()
            if code != 0 and self.failure is None:
                self.failure = f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            return None
        *lines, self._line = (self._line + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def watch(self) -> None:
        """End it where it hangs.  SIGABRT makes it print where."""
        begun, _ = self.current.get()
        if begun and time.monotonic() - begun > _STATE_SECONDS_MAX and self.failure is None:
            self.failure = f"did not go on for {_STATE_SECONDS_MAX:.0f} s"
            self.process.send_signal(signal.SIGABRT)

    def keep(self, folder: Path) -> None:
        """Put what it had in hand into a folder."""
        shutil.copytree(self.job.scratch, folder, symlinks=True, ignore=shutil.ignore_patterns("*.trace"))

    def end(self) -> None:
        """End it and what it has started, whatever they do."""
        if self.failure is not None or self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # it leads a session, and so a group, of its own
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Crew:
    """All of them.  Leaving its `with` block ends them."""

    def __init__(self, jobs: list[Job], preload: Preload, tree: Path) -> None:
        self.members = [Member(job, preload, tree) for job in jobs]
        self._by_fd = {member.fd: member for member in self.members}

    def messages(self) -> Iterator[tuple[Member, dict[str, Any]]]:
        """What they say until all have ended; an empty message about once a second, and when one has ended."""
        with selectors.DefaultSelector() as selector:
            for member in self.members:
                selector.register(member.fd, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(timeout=1.0):
                    member = self._by_fd[key.fd]
                    heard = member.hear()
                    if heard is None:
                        selector.unregister(member.fd)
                        yield member, {"ended": member.failure}
                    for message in heard or ():
                        yield member, message
                for member in self.members:
                    member.watch()
                yield self.members[0], {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.end()
