"""The driver program as the director sees it: requests, answers, and how far it is in between."""

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
    """A Spark application.  Leaving the `with` block ends it.

    Raises, as all of its methods: ClusterError where it ends, or says nothing for minutes.
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
        """The answer to a request.  on_progress: is told how far it is."""
        self._request(do, **arguments)
        return self._answer(on_progress)

    def wait_until(self, reached: Callable[[Progress], bool]) -> Progress:
        """How far it is, once it is far enough; for what goes on by itself."""
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
            raise ClusterError(f"nothing was heard of the driver:\n{self._machine.said()}") from None
        if told is None:
            raise self._ended()
        return told

    def _ended(self) -> ClusterError:
        return ClusterError(f"the driver has ended:\n{self._machine.said()}")

    def _hear(self) -> None:
        assert self._machine.process.stdout is not None
        for line in self._machine.process.stdout:
            if line.startswith("{"):  # Java may have something to say there too
                self._told.put(json.loads(line))
        self._told.put(None)

    def close(self) -> None:
        """End it, and all that it started."""
        self._machine.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
