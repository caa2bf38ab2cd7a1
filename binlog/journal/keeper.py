"""What a journal does beside appending: it has a file ready before it is needed, and frees those that are dead."""

from __future__ import annotations

import threading

from binlog.errors import BinlogError, FullError, InternalError
from binlog.journal.appender import Appender
from binlog.journal.files import JournalFiles
from binlog.journal.ledger import Ledger, dead_files


class Keeper:
    """A thread that works whenever the journal has gone on to another file.

    mutex: of the journal; held while the ledger is looked at.  files_mutex: held while the files are changed; whoever
    takes both takes it second.
    """

    def __init__(
        self,
        mutex: threading.Lock,
        files_mutex: threading.Lock,
        files: JournalFiles,
        ledger: Ledger,
        appender: Appender,
    ) -> None:
        self._mutex = mutex
        self._files_mutex = files_mutex
        self._files = files
        self._ledger = ledger
        self._appender = appender
        self._working = threading.Lock()
        self._woken = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="binlog journal keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    def stop(self) -> None:
        """End; waits for what goes on."""
        self._stopping = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def reclaim(self) -> int:
        """Free all files that nobody needs; how many there were.

        Durable: what says that they are dead is on the disk before the first of them is written over.
        Blocks: for a sync, and one for each file.  Raises: AccessError; PoisonedError.
        """
        with self._working:
            with self._mutex:
                dead = dead_files(self._files.data, self._files.current)
                count = self._appender.appended
            if not dead:
                return 0
            self._appender.wait(count)
            for file in dead:
                with self._files_mutex:
                    self._files.free_dead([file])
            with self._mutex:
                for file in self._files:
                    for gone in dead:
                        file.negated.pop(gone, None)
            return len(dead)

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._stopping:
                return
            try:
                self._work()
            except BinlogError as error:
                self._appender.fail(error)
                return
            except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises, and all who append are told
                self._appender.fail(InternalError(f"{self._thread.name}: {error!r}"))
                return

    def _work(self) -> None:
        self.reclaim()
        try:
            with self._files_mutex:
                self._files.prepare()
        except FullError:
            return  # the append that needs the file says so
