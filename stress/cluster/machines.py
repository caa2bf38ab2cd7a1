"""The machines of the cluster, a master and workers, each a session of processes.

Facts relied on:

- setsid(2): all processes that a session's leader starts are in its session.  `spark-class` replaces itself with Java,
  which then leads the session; PySpark's daemon makes its own process group, but stays in the session.
- A standalone master lists its workers, and which are alive, as JSON at /json/ of its web page.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from stress.cluster.installation import Installation

WORKER_CORES = 1
WORKER_MEMORY = "1g"

_START_SECONDS_MAX = 180
_POLL_SECONDS = 0.05
_ANSWER_SECONDS_MAX = 5
_LOG_LINES = 15


class ClusterError(Exception):
    """The cluster failed; the text has the awaited event and the output."""


class Machine:
    """A process that leads a session with everything that it starts.

    folder: its own; its output goes to the file `output` there, except standard output if `piped`.
    """

    def __init__(
        self, command: list[str], folder: Path, environment: Mapping[str, str], *, piped: bool = False
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._output = folder / "output"
        pipe = subprocess.PIPE if piped else None
        with self._output.open("wb") as output:
            self.process: subprocess.Popen[str] = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or output,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def kill(self) -> int:
        """Kill the whole session at once, as a power cut would, and return the number of processes."""
        killed: set[int] = set()
        if self.process.returncode is not None:
            return 0
        # Its id, and so the session's, is not reused before it is waited for.
        while living := set(self._living()):
            for pid in living:
                _kill(pid)
            killed |= living
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            _close(pipe)
        return len(killed)

    def _living(self) -> Iterator[int]:
        for name in os.listdir("/proc"):
            try:
                text = Path("/proc", name, "stat").read_text() if name.isdigit() else ""
            except OSError:
                continue  # the process has exited
            # The name, in brackets, may contain anything.
            state, _, _, session, *_ = text.rpartition(")")[2].split() or ("Z", "", "", "")
            if state not in "ZX" and int(session) == self.process.pid:
                yield int(name)

    @property
    def ended(self) -> bool:
        """Return whether the process has exited, without waiting for it."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.process.returncode is not None or os.waitid(os.P_PID, self.process.pid, flags) is not None

    def said(self) -> str:
        """Return the end of its output."""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _close(pipe: IO[str] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        return


class Cluster:
    """A master and its workers on the loopback address.  Leaving the `with` block stops all of them."""

    def __init__(self, folder: Path, installation: Installation) -> None:
        self._folder = folder
        self._installation = installation
        port, self._page = _free_port(), _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.workers: list[Machine] = []
        self._count = 0
        self._master = self._start("master", ["--port", str(port), "--webui-port", str(self._page)])
        try:
            self._wait(lambda: self._alive() is not None, "the master", self._master)
        except BaseException:
            self.close()
            raise

    def add_worker(self, **environment: str) -> Machine:
        """Start another worker.  environment: more variables for it and its executors."""
        self._count += 1
        name = f"worker-{self._count}"
        options = ["--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY, "--webui-port", "0"]
        options += ["--work-dir", str(self._folder / name)]  # by default it is in Spark's own folder
        worker = self._start(name, options, self.url, **environment)
        self.workers.append(worker)
        return worker

    def wait_for_workers(self) -> None:
        """Wait until the master knows all workers.  Raises: ClusterError."""
        self._wait(lambda: self._alive() == len(self.workers), "the workers", self.workers[-1])

    def kill_worker(self) -> int:
        """Kill the oldest worker, start a new one, and return the number of processes killed."""
        count = self.workers.pop(0).kill()
        self.add_worker()
        return count

    def kill_workers(self) -> None:
        """Kill all workers, and start none."""
        while self.workers:
            self.workers.pop().kill()

    def close(self) -> None:
        """End everything."""
        self.kill_workers()
        if hasattr(self, "_master"):
            self._master.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, name: str, options: list[str], *urls: str, **environment: str) -> Machine:
        kind = name.partition("-")[0]
        command = [str(self._installation.spark_home / "bin" / "spark-class")]
        command += [f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", "--host", "127.0.0.1", *options, *urls]
        folder = self._folder / name
        return Machine(command, folder, self._installation.environment(folder, **environment))

    def _alive(self) -> int | None:
        """Return the number of workers that the master knows, or None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=_ANSWER_SECONDS_MAX) as page:
                told: Any = json.load(page)
        except (OSError, ValueError):
            return None
        return len([worker for worker in told["workers"] if worker["state"] == "ALIVE"])

    def _wait(self, until: Callable[[], bool], what: str, machine: Machine) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not until():
            if machine.ended or time.monotonic() > deadline:
                raise ClusterError(f"{what} did not start:\n{machine.said()}")
            time.sleep(_POLL_SECONDS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
