"""Watcher: a thread that reads the state and the new records of a log for all browsers.

Invariants: the thread alone uses the reader, and calls `read_state`.  `_lock` guards the browsers, and the start of the
reader.  The reader exists only while a browser listens to the log's records.  A browser that begins to listen gets
every record from then on: `listen` fixes the start of the reader before it returns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import binlog
from binlog.errors import BinlogError, GoneError
from binlog.web.outbox import Outbox, encode_json
from binlog.web.shown import Query, ShownLog

# Between two readings of the state of a log, and the longest wait for a record.
STATE_SECONDS = 1.0
# Records that arrive within this time are sent together.
GATHER_SECONDS = 0.2
# The most records of a batch that a browser gets; a page cannot show more.
_ROWS_MAX = 100
# If more than this is left after a second of reading, it is skipped: a page that lags shows the past as the present.
_BEHIND_BYTES_MAX = 32 << 20


@dataclass(frozen=True, eq=False)
class Listener:
    """A browser that gets the records that match its query."""

    outbox: Outbox
    query: Query


class Watcher:
    """Watches one log for all browsers.

    index: of the log, which its states carry.
    """

    def __init__(self, index: int, log: ShownLog) -> None:
        self.log = log
        self._index = index
        self._lock = threading.Lock()
        self._outboxes: list[Outbox] = []
        self._listeners: list[Listener] = []
        self._start: binlog.Ref | binlog.Start | None = None
        self._reader: binlog.Reader | None = None
        self._state = b""
        self._state_read = 0.0
        self._woken = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name=f"watch {log.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread, and close the log.  Blocks for a second at most."""
        self._is_ending = True
        self._woken.set()
        self._thread.join()

    def add(self, outbox: Outbox) -> None:
        """Put the states of the log in an outbox from now on, beginning with the latest."""
        with self._lock:
            self._outboxes.append(outbox)
            if self._state:
                outbox.put_state(self._index, self._state)

    def remove(self, outbox: Outbox) -> None:
        """Undo `add` and `listen`."""
        with self._lock:
            self._outboxes = [each for each in self._outboxes if each is not outbox]
            self._listeners = [each for each in self._listeners if each.outbox is not outbox]

    def listen(self, outbox: Outbox, query: Query) -> None:
        """Put the records that are appended from now on, and match, in an outbox.

        Earlier ones may be among them.  Raises: as binlog.stat.
        """
        tail = binlog.stat(self.log.directory).tail or binlog.Start.BEGINNING
        with self._lock:
            if not self._listeners:
                self._start = tail
            self._listeners.append(Listener(outbox, query))
        self._woken.set()

    def _run(self) -> None:
        try:
            while not self._is_ending:
                self._read_state()
                self._follow()
        finally:
            self._close_reader()
            self.log.close()

    def _read_state(self) -> None:
        if time.monotonic() < self._state_read + STATE_SECONDS:
            return
        state = encode_json({"log": self._index, "name": self.log.name, **self.log.read_state()})
        self._state_read = time.monotonic()
        with self._lock:
            if state != self._state:
                self._state = state
                for outbox in self._outboxes:
                    outbox.put_state(self._index, state)

    def _follow(self) -> None:
        """Read new records, or wait for one, up to a second."""
        with self._lock:
            listeners, start, self._start = self._listeners, self._start, None
        if not listeners:
            self._close_reader()
            self._woken.wait(STATE_SECONDS)
            self._woken.clear()
            return
        try:
            if start is not None:
                self._open(start)
            elif self._reader is None:
                self._open(binlog.stat(self.log.directory).tail or binlog.Start.BEGINNING)
            assert self._reader is not None
            began = time.monotonic()
            if self._reader.wait(STATE_SECONDS):
                self._read(self._reader)
                self._pause(began + GATHER_SECONDS - time.monotonic())
        except GoneError as error:
            self._close_reader()
            self._note(f"records were skipped: {error}")
        except BinlogError as error:
            self._close_reader()
            self._note(f"the records cannot be read: {error}")
            self._pause(STATE_SECONDS)

    def _read(self, reader: binlog.Reader) -> None:
        """Read until the reader has caught up, or the next reading of the state is due."""
        until = time.monotonic() + STATE_SECONDS
        while not self._is_ending and (batch := reader.read_batch()):
            for listener in self._now_listening():
                found = listener.query.of_batch(batch, _ROWS_MAX)
                if found.rows:
                    listener.outbox.put_rows(found.rows, found.left_out)
            if time.monotonic() >= until:
                self._skip_to_end(reader)
                return

    def _skip_to_end(self, reader: binlog.Reader) -> None:
        """Skip records if they come faster than they are read, but show the last ones that match."""
        start, log = reader.next_ref, binlog.stat(self.log.directory)
        behind = log.bytes_after(start)
        if log.tail is None or behind is None or behind <= _BEHIND_BYTES_MAX:
            return
        self._note(f"records came faster than they could be read: {behind >> 20} MiB of them were skipped")
        for listener in self._now_listening():
            last = listener.query.last(_ROWS_MAX).rows
            listener.outbox.put_rows([row for row in last if start <= row.ref < log.tail], 0)
        self._open(log.tail)

    def _now_listening(self) -> Iterable[Listener]:
        with self._lock:
            return tuple(self._listeners)

    def _note(self, text: str) -> None:
        for listener in self._now_listening():
            listener.outbox.put_note(text)

    def _pause(self, seconds: float) -> None:
        """Wait, unless the watcher ends."""
        if seconds > 0 and not self._is_ending:
            time.sleep(seconds)

    def _open(self, start: binlog.Ref | binlog.Start) -> None:
        self._close_reader()
        self._reader = binlog.Reader(self.log.directory, start)

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
