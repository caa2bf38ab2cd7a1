"""A sync that all who wait for one share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from binlog.paging.addresses import Commit
from binlog.storage.files import commit_at
from binlog.storage.native import CommitGroup, Guard


class SharedSync:
    """One of those who wait syncs, in its own thread; those who come meanwhile share the next sync."""

    def __init__(self, guard: Guard, sync: Callable[[Commit], None]) -> None:
        """sync: syncs all that was written, the last file by the function that it gets, if there is any."""
        self._group = CommitGroup(guard)
        self._sync = sync
        self._tickets = count(1)

    def wait(self) -> None:
        """Return once a sync was begun after this call, and has ended.

        Raises: what `sync` raises; PoisonedError; StateError in a signal handler that broke into a sync of this thread.
        """
        with self._group.turn(next(self._tickets)) as leads:
            if leads:
                # All who have a smaller ticket than this one had written what they wait for.
                through = next(self._tickets)
                self._sync(partial(self._commit, through))
                if self._group.durable < through:  # nothing was left to be synced
                    self._group.begin(through, True)
                    self._group.reach()

    def _commit(self, through: int, fd: int, path: str) -> None:
        self._group.begin(through, True)
        commit_at(self._group, fd, b"", 0, path)
