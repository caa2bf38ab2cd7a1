"""The maintenance thread: prepares files ahead of need, frees dead files, and compacts.

One thread does all of it, so these tasks never run at the same time, and no signal handler interrupts them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from binlog.errors import BinlogError, ClosedError, InternalError, PoisonedError
from binlog.journal.appender import Appender
from binlog.journal.compaction.compactor import Compactor
from binlog.journal.files.journal_files import JournalFile, JournalFiles, is_fatal, suppress_transient
from binlog.journal.ledger import Ledger, dead_files
from binlog.storage.native import Guard
from binlog.storage.waiting.worker import Worker


class MaintenanceThread:
    """Runs maintenance after each cutover and on request.

    guard: the journal's; held while the ledger is read.  files_guard: held while the files change.  A thread that needs
    both takes files_guard second.
    """

    def __init__(
        self,
        guard: Guard,
        files_guard: Guard,
        files: JournalFiles,
        ledger: Ledger,
        appender: Appender,
        compactor: Compactor,
    ) -> None:
        self._guard = guard
        self._files_guard = files_guard
        self._files = files
        self._ledger = ledger
        self._appender = appender
        self._compactor = compactor
        self._requests: deque[tuple[Callable[[], int], Future[int]]] = deque()
        self.worker = Worker(self._work)

    def wake(self) -> None:
        """Wake the thread: a file was taken, or is complete."""
        self.worker.notify()

    def reclaim(self) -> int:
        """Free all dead files, and return how many.  Raises: as `Journal.reclaim`."""
        return self._request(self._reclaim)

    def compact(self) -> int:
        """Compact, and return by how many files the journal shrank.  Raises: as `Journal.compact`."""
        return self._request(self._compactor.compact)

    def stop(self) -> None:
        """Stop the thread after its current task; a second call does nothing."""
        self.worker.stop()
        while self._requests:
            self._requests.popleft()[1].set_exception(ClosedError("the journal is closed"))

    def _request(self, work: Callable[[], int]) -> int:
        done: Future[int] = Future()
        self._requests.append((work, done))
        self.worker.notify()
        if self.worker.stopping.is_set():
            self.stop()  # the thread may have stopped before the request was queued
        return done.result()

    def _work(self) -> None:
        try:
            self._guard.check()
            self._run_tasks()
        except Exception as error:  # noqa: BLE001 - the guard hands it to the next caller; a thread would swallow it
            self._poison(error)
        while self._requests and (failure := self._guard.failure) is not None:
            self._requests.popleft()[1].set_exception(PoisonedError(str(failure)))

    def _poison(self, error: BaseException) -> None:
        own = error if isinstance(error, BinlogError) else InternalError(f"in the maintenance of a journal: {error!r}")
        self._appender.fail(own)

    def _run_tasks(self) -> None:
        self._prepare()
        while self._requests:
            work, done = self._requests.popleft()
            try:
                done.set_result(work())
            except BaseException as error:
                if is_fatal(error):
                    self._poison(error)  # first, because the caller continues as soon as it has the error
                    done.set_exception(error)
                    raise
                done.set_exception(error)
        with suppress_transient():
            self._reclaim()
        self._prepare()
        with self._guard:
            due = self._compactor.is_due()
        if due:
            with suppress_transient():
                self._compactor.compact()

    def _prepare(self) -> None:
        with suppress_transient(), self._files_guard:  # an append that cannot get a file raises the error
            self._files.prepare()
            self._files.top_up()

    def _reclaim(self) -> int:
        self._compactor.finish()
        with self._guard:
            dead = dead_files(self._files.data, self._files.current)
            count = self._appender.appended
        if not dead:
            return 0
        # The records that made the files dead must be durable before the first of the files is overwritten.
        self._appender.wait(count)
        freed: list[JournalFile] = []
        try:
            for file in dead:
                self._prepare()  # otherwise an append that takes the prepared file would have to make the next one
                with self._files_guard:
                    self._files.free_dead(file)
                freed.append(file)
        finally:
            self._forget(freed)
        return len(freed)

    def _forget(self, freed: Sequence[JournalFile]) -> None:
        with self._guard:
            for file in freed:
                self._ledger.forget(file)
            for file in self._files:
                file.must_outlive.difference_update(freed)
