"""A handle of the driver program: send requests, receive answers and progress."""

from __future__ import annotations

import json
import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from stress.cluster.installation import Installation
from stress.cluster.machines import ClusterError, Machine

_SILENCE_SECONDS_MAX = 300

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

Progress = dict[str, int]


class Driver:
    """A Spark application.  Leaving the `with` block stops it.

    Raises, in all methods: ClusterError if it exits, or is silent for minutes.
    """

    def __init__(self, folder: Path, installation: Installation, master: str) -> None:
        folder.mkdir()
        shutil.copy(Path(__file__).with_name("job.py"), folder)
        environment = installation.environment(
            folder, PYTHONPATH=installation.spark_path(), PYSPARK_PYTHON="python3", PYSPARK_DRIVER_PYTHON="python3"
        )
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        command = [str(installation.python), "job.py", master, *settings]
        self._machine = Machine(command, folder, environment, piped=True)
        self._told: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        try:
            self._answer(None)
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, *, on_progress: Callable[[Progress], object] | None = None, **arguments: object) -> Any:
        """Send a request and return the answer.  on_progress: called with the progress meanwhile."""
        self._request(do, **arguments)
        return self._answer(on_progress)

    def wait_until(self, reached: Callable[[Progress], bool]) -> Progress:
        """Wait until a running job has reached some progress, and return that."""
        while True:
            told = self._next()
            if "progress" in told and reached(told["progress"]):
                progress: Progress = told["progress"]
                return progress

    def _request(self, do: str, **arguments: object) -> None:
        assert self._machine.process.stdin is not None
        try:
            self._machine.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._machine.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _answer(self, on_progress: Callable[[Progress], object] | None) -> Any:
        while "answer" not in (told := self._next()):
            if on_progress is not None:
                on_progress(told["progress"])
        return told["answer"]

    def _next(self) -> dict[str, Any]:
        try:
            told = self._told.get(timeout=_SILENCE_SECONDS_MAX)
        except queue.Empty:
            raise ClusterError(f"the driver is silent:\n{self._machine.said()}") from None
        if told is None:
            raise self._ended()
        return told

    def _ended(self) -> ClusterError:
        return ClusterError(f"the driver has exited:\n{self._machine.said()}")

    def _hear(self) -> None:
        assert self._machine.process.stdout is not None
        for line in self._machine.process.stdout:
            if line.startswith("{"):  # Java may print other lines
                self._told.put(json.loads(line))
        self._told.put(None)

    def close(self) -> None:
        """Stop it and everything that it started."""
        self._machine.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
