"""ElectedSealer: a sealer in one of the processes that write to a log; if that process ends, another takes over."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence

from binlog.errors import AccessError, BinlogError, BusyError, FullError
from binlog.seal.anchors import Anchor, parse_anchor
from binlog.seal.keys import Signer, SigningKey
from binlog.seal.sealing.sealer import Sealer

_LOGGER = logging.getLogger("binlog.seal")


class ElectedSealer:
    """For the option `sealer` of a Writer: seals the log from a thread, as long as no other process does.

    key: the one that the seal began with, or the path of its file.  anchors: Anchor objects, or texts that name
    them, as `parse_anchor` takes them.
    every: seconds between two checkpoints, and between two attempts to take over.
    on_failure: called with a message if the log cannot be sealed; by default it goes to the logger `binlog.seal`.
    Of all writers with one, in any processes, one seals.  An append never waits for it.
    Raises: AccessError, SealError if the key's file cannot be used; ValueError.
    """

    def __init__(
        self,
        key: Signer | str | os.PathLike[str],
        *,
        anchors: Sequence[Anchor | str] = (),
        every: float = 1.0,
        on_failure: Callable[[str], None] = _LOGGER.error,
    ) -> None:
        self._key = SigningKey.load(key) if isinstance(key, str | os.PathLike) else key
        self._anchors = [parse_anchor(each) if isinstance(each, str) else each for each in anchors]
        self._every = every
        self._on_failure = on_failure
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sealer: Sealer | None = None
        self._changing = threading.Lock()
        self._process = 0
        self.error: BinlogError | None = None

    @property
    def is_sealing(self) -> bool:
        """Whether this process is the one that seals."""
        return self._sealer is not None

    def start(self, path: str) -> None:
        """Start the thread for the log in a directory.  Its Writer calls this."""
        self._process = os.getpid()
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(path,), name="binlog sealer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Seal once more, if this process is the one that seals, and end the thread.  Its Writer calls this.

        Does nothing in a forked child, which has no such thread.
        """
        if self._thread is None or self._process != os.getpid():
            return
        self._stop.set()
        with self._changing:
            if self._sealer is not None:
                self._sealer.wake()
        self._thread.join()
        self._thread = None

    def _run(self, path: str) -> None:
        while not self._stop.is_set():
            try:
                with Sealer(path, self._key, anchors=self._anchors) as sealer:
                    self._sealer = sealer
                    try:
                        sealer.run(self._stop, self._every, self._on_failure)
                    finally:
                        with self._changing:  # before it is closed, so that `stop` wakes no closed one
                            self._sealer = None
            except BusyError:
                self._stop.wait(self._every)
            except (FullError, AccessError) as error:
                self._on_failure(str(error))
                self._stop.wait(self._every)
            except BinlogError as error:
                self.error = error
                self._on_failure(str(error))
                return
