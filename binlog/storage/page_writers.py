"""What the compiled writers of pages and of acknowledgements tell of themselves."""

from __future__ import annotations

import enum
from typing import NamedTuple

from binlog.storage.native import AckWriter, PageWriter

__all__ = ["AckWriter", "Mark", "PageWriter", "Refusal", "WriterState"]


class Mark(enum.IntEnum):
    """What an AckWriter knows of a message.  PENDING: a transaction that has not ended acknowledged it."""

    NONE = 0
    DONE = 1
    PENDING = 2


class Refusal(enum.IntEnum):
    """Why an AckWriter appended nothing.

    TWICE: a message was acknowledged before.  LIMIT: the page has fewer messages, as far as is known.
    FAILURE: there is no file, or a write failed.
    """

    TWICE = -1
    LIMIT = -2
    FAILURE = -3


class WriterState(NamedTuple):
    """How a PageWriter is.

    at: where the last message ends.  message_bytes: of the messages alone.  failure: errno of a write that failed, 0.
    """

    at: int
    message_count: int
    message_bytes: int
    closed: int
    failure: int
