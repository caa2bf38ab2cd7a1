"""loguru: a sink that appends events.

    logger.add(binlog.logging.loguru_sink("app"), format="{message}", enqueue=False, catch=True)

`enqueue` is useless with it: any number of processes may append, and a queue would lose records at a SIGKILL.  This
module does not import loguru.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from binlog.logging.delivery import Counters
from binlog.logging.events import EventEncoder, current_trace
from binlog.logging.rendering import exception_fields
from binlog.logging.sink import Sink


class LoguruSink:
    """A sink for `loguru.logger.add`.  loguru closes it when the sink is removed.

    It takes the message, the level, the time, `extra` and the exception from loguru's record; loguru's `format` only
    makes `str(message)`, which is not used.
    """

    def __init__(self, sink: Sink, encoder: EventEncoder, *, code: bool) -> None:
        self._sink, self._encoder, self._code = sink, encoder, code

    def write(self, message: Any) -> None:
        """Append the event of a message of loguru.  Blocks and raises as Handler.handle."""
        record = message.record
        attributes: dict[str, Any] = dict(record["extra"])
        event = attributes.pop("event") if type(attributes.get("event")) is str else None
        if record["exception"] is not None:
            attributes.update(exception_fields(tuple(record["exception"])))
        code = None
        if self._code:
            code = {"file": record["file"].path, "line": record["line"], "function": record["function"]}
        level = record["level"]
        line = self._encoder.line(
            record["time"].timestamp(),
            level.no,
            level.name,
            record["name"] or "",
            record["message"],
            attributes,
            event=event,
            trace=current_trace(),
            pid=record["process"].id,
            code=code,
        )
        self._sink.append(line, level.no)

    def stop(self) -> None:
        """Make everything durable, and close the log."""
        self._sink.close()

    def sync(self) -> None:
        """Make everything logged so far durable.  Blocks and raises as binlog.Writer.sync."""
        self._sink.sync()

    @property
    def counters(self) -> Counters:
        """The numbers of records so far, in this process; see Counters."""
        return self._sink.counters


def loguru_sink(
    path: str | os.PathLike[str], *, static: Mapping[str, object] | None = None, code: bool = False, **options: Any
) -> LoguruSink:
    """Return a sink for `loguru.logger.add` that appends events to a log.

    static, code: as for JsonFormatter.  options: as for Handler, without `level` and `formatter`.
    Raises: as Handler.
    """
    return LoguruSink(Sink(path, **options), EventEncoder(static), code=code)
