"""The interface to a log that the caller passes in.

binlog/cli/watching/web_log.py makes these from the parts of `binlog monitor` and `binlog tail`, so that a filter finds
the same records in a terminal and in a browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import binlog

JsonObject = dict[str, Any]


class Row(NamedTuple):
    """A record in a few words.  data: a JSON object, encoded in ASCII on one line."""

    ref: binlog.Ref
    data: bytes


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The newest records that match, in order.

    left_out: how many older ones match too, of those that were searched.  is_cut: older records were not searched.
    tail: where the search ended; None if the log has no files.
    """

    rows: list[Row]
    left_out: int = 0
    is_cut: bool = False
    tail: binlog.Ref | None = None


class Query(Protocol):
    """A filter that a browser chose.  Threads may share it."""

    def of_batch(self, batch: binlog.Batch, count_max: int) -> FoundRows:
        """Return the last `count_max` records of a batch that match.  Raises: as binlog.RecordTimes."""

    def last(self, count_max: int) -> FoundRows:
        """Return the last `count_max` records of the log that match.

        Blocks while it reads.  Raises: as binlog.stat.
        """


class ShownLog(Protocol):
    """A log.  One thread at a time may call `read_state`; the rest is for any thread."""

    @property
    def name(self) -> str:
        """Its name on the page."""

    @property
    def directory(self) -> str:
        """The path of the log."""

    def read_state(self) -> JsonObject:
        """Return the state of the log: sizes, rate, files, followers, groups, seal.  Raises nothing for damage."""

    def query(self, values: Mapping[str, Sequence[str]]) -> Query:
        """Return the filter that these parameters of a request choose.  Raises: ValueError."""

    def record(self, ref: binlog.Ref) -> JsonObject:
        """Return all of a record.  Raises: ValueError if no record starts there; GoneError; as binlog.Reader."""

    def close(self) -> None:
        """Close all files."""
