"""Waiting until all messages of a queue were acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from binlog.paging.waits import LOOK_SECONDS, wait_for_notice
from binlog.storage.native import Monitor


class Joining:
    """Those who wait.  `changed` is to be called behind whatever may end a wait."""

    def __init__(self, mutex: Monitor) -> None:
        """mutex: the queue's."""
        self._mutex = mutex
        self._change_count = 0
        self.waiting_count = 0

    def wait(self, read: Callable[[], None], is_done: Callable[[], bool]) -> None:
        """Wait until it is done.

        read: reads what comes next, without the mutex: so it is found which messages are nobody's, and there may be no
        one else who reads.  is_done: asked with the mutex.
        """
        with self._mutex:
            self.waiting_count += 1
        try:
            while True:
                seen = self._change_count
                read()
                with self._mutex:
                    if is_done():
                        return
                    if seen == self._change_count:  # else there may be more to be read
                        wait_for_notice(self._mutex, LOOK_SECONDS)
        finally:
            with self._mutex:
                self.waiting_count -= 1

    def changed(self) -> None:
        """Have them look again."""
        with self._mutex:
            self.changed_held()

    def changed_held(self) -> None:
        """Likewise; the mutex is held."""
        self._change_count += 1
        self._mutex.notify()
