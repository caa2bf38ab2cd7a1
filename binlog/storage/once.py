"""Something that happens once, and threads of this process that wait for it.

Facts relied on:
- futex(2): one call wakes all who wait, however many; a wait may end for no reason, or for a signal, so the word is
  looked at again.
- A `threading.Lock` for each of them takes a call for each, made with the interpreter's lock held, for which those who
  were woken first then wait.
"""

from __future__ import annotations

from binlog.storage.green import GREEN_SECONDS, green_sleep
from binlog.storage.native import ffi, lib

_LOOK_NS = 60 * 10**9


class Once:
    """It; a forked child's copy is of no use to anybody."""

    __slots__ = ("_word",)

    def __init__(self) -> None:
        self._word = ffi.new("uint32_t *")

    @property
    def has_happened(self) -> bool:
        """Whether nobody has to wait any more."""
        return bool(self._word[0])

    def happen(self) -> None:
        """Wake all who wait."""
        self._word[0] = 1
        lib.binlog_bell_wake(self._word)

    def wait(self) -> None:
        """Return once it has happened.  Signal handlers run meanwhile, and what they raise comes out of this."""
        word = self._word
        while not word[0]:
            sleep = green_sleep()
            if sleep is None:
                lib.binlog_bell_wait(word, 0, _LOOK_NS)
            else:
                sleep(GREEN_SECONDS)  # who makes it happen may be a greenlet of this very thread
