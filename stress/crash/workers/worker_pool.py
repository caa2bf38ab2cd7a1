"""The worker processes of one run: starting them, reading their messages, and noticing one that died or hangs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from stress.crash.preloaded.preload import Preload
from stress.crash.workers.context import Current, Job, copy_files

_STATE_SECONDS_MAX = 90.0
"""The limit for one state or one recording, which take a millisecond and a second."""


class Worker:
    """A worker process."""

    def __init__(self, job: Job, preload: Preload, tree: Path) -> None:
        self.job = job
        Path(job.scratch).mkdir()
        self.current = Current(Path(job.scratch))
        environment = preload.environment("third")
        # its own, so that it can remove the files of its dead processes
        environment["BINLOG_RECORDER_MEMORY"] = job.memory
        environment["PYTHONPATH"] = str(tree)  # the copy with a seeded bug shadows the installed package
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stress.crash.worker", job.as_json()],
            cwd=tree, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.failure: str | None = None
        self._line = b""

    @property
    def fd(self) -> int:
        """The descriptor of the pipe on which it sends messages."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that it sent, or None after it has ended."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            code = self.process.wait()
            if code != 0 and self.failure is None:
                self.failure = f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            return None
        *lines, self._line = (self._line + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def abort_if_hung(self) -> None:
        """Abort the worker if it hangs: SIGABRT makes it print its stack."""
        begun, _ = self.current.get()
        if begun and time.monotonic() - begun > _STATE_SECONDS_MAX and self.failure is None:
            self.failure = f"made no progress for {_STATE_SECONDS_MAX:.0f} s"
            self.process.send_signal(signal.SIGABRT)

    def keep(self, folder: Path) -> None:
        """Copy its scratch folder, with the case that it was running."""
        copy_files(Path(self.job.scratch), folder)

    def end(self) -> None:
        """Kill it and every process that it started."""
        if self.failure is not None or self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # the worker leads a session, and therefore a process group
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class WorkerPool:
    """The workers of one run.  Leaving the `with` block ends them."""

    def __init__(self, jobs: list[Job], preload: Preload, tree: Path) -> None:
        self.workers = [Worker(job, preload, tree) for job in jobs]
        self._by_fd = {worker.fd: worker for worker in self.workers}

    def messages(self) -> Iterator[tuple[Worker, dict[str, Any]]]:
        """Yield messages until all workers have ended, with an empty message about once a second and after each end."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.fd, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(timeout=1.0):
                    worker = self._by_fd[key.fd]
                    received = worker.receive()
                    if received is None:
                        selector.unregister(worker.fd)
                        yield worker, {"ended": worker.failure}
                    for message in received or ():
                        yield worker, message
                for worker in self.workers:
                    worker.abort_if_hung()
                yield self.workers[0], {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()
