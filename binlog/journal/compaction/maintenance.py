"""What a journal does beside appending: it has a file ready before it is needed, frees dead ones, and compacts.

One thread does all of it: no part runs beside another one, and no signal handler breaks into it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from binlog.errors import BinlogError, ClosedError, InternalError, PoisonedError
from binlog.journal.appender import Appender
from binlog.journal.compaction.compactor import Compactor
from binlog.journal.files.journal_files import JournalFile, JournalFiles, ignored_until_later, is_for_ever
from binlog.journal.ledger import Ledger, dead_files
from binlog.storage.native import Guard
from binlog.storage.waiting.worker import Worker


class Keeper:
    """The thread, which works whenever the journal has gone on to another file, and when it is asked to.

    guard: of the journal; held while the ledger is looked at.  files_guard: held while the files are changed; whoever
    takes both takes it second.  worker: the thread.
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
        self._asked: deque[tuple[Callable[[], int], Future[int]]] = deque()
        self.worker = Worker(self._work)

    def wake(self) -> None:
        """There may be something to do."""
        self.worker.notify()

    def reclaim(self) -> int:
        """Free all files that nobody needs, and wait for that; how many there were.  Raises: what that raises."""
        return self._ask(self._reclaim)

    def compact(self) -> int:
        """Compact, and wait for that; how many files fewer there are.  Raises: what that raises."""
        return self._ask(self._compactor.compact)

    def stop(self) -> None:
        """End; waits for what goes on.  It can be called again."""
        self.worker.stop()
        while self._asked:
            self._asked.popleft()[1].set_exception(ClosedError("the journal is closed"))

    def _ask(self, work: Callable[[], int]) -> int:
        done: Future[int] = Future()
        self._asked.append((work, done))
        self.worker.notify()
        if self.worker.stopping.is_set():
            self.stop()  # which may have come before this was asked
        return done.result()

    def _work(self) -> None:
        try:
            self._guard.check()
            self._do_all()
        except BinlogError as error:
            self._appender.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises; the next caller does
            self._appender.fail(InternalError(f"while keeping a journal: {error!r}"))
        while self._asked and (failure := self._guard.failure) is not None:
            self._asked.popleft()[1].set_exception(PoisonedError(str(failure)))

    def _do_all(self) -> None:
        self._prepare()
        while self._asked:
            work, done = self._asked.popleft()
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
                if is_for_ever(error):
                    raise
        with ignored_until_later():
            self._reclaim()
        self._prepare()
        with self._guard:
            due = self._compactor.is_due()
        if due:
            with ignored_until_later():
                self._compactor.compact()

    def _prepare(self) -> None:
        with ignored_until_later(), self._files_guard:  # the append that needs the file says so
            self._files.prepare()
            self._files.top_up()

    def _reclaim(self) -> int:
        self._compactor.finish()
        with self._guard:
            dead = dead_files(self._files.data, self._files.current)
            count = self._appender.appended
        if not dead:
            return 0
        # What says that they are dead must be on the disk before the first of them is written over.
        self._appender.wait(count)
        freed: list[JournalFile] = []
        try:
            for file in dead:
                self._prepare()  # who appends may have taken the one that was ready, and would have to make the next
                with self._files_guard:
                    self._files.free_dead(file)
                freed.append(file)
        finally:
            self._forget(freed)
        return len(freed)

    def _forget(self, freed: Sequence[JournalFile]) -> None:
        with self._guard:
            for gone in freed:
                self._ledger.forget(gone)
            for file in self._files:
                file.outlasts.difference_update(freed)
