"""A worker of the demo, a process of its own: it stores a result for each message that it gets.

The result of a message is a file named by the message's id.  A link makes it, in one step and only once.  So if a
worker dies after it has stored a result, the message is delivered again, but its result is not stored twice.

Two messages are special: the first worker that gets `HANGS` does not come back from it, and `KILLS` ends each worker
that gets it, as the kernel does if a worker takes too much memory.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time
from pathlib import Path

import binlog
from stress.demo.messages import end_with_director, send

GROUP = "results"
HANGS = b"a message whose first worker hangs"
KILLS = b"a message that kills its workers"
DELIVERIES_MAX = 3

_RETRY = binlog.Retry(deliveries_max=DELIVERIES_MAX, first=0.1)


def open_group(log: Path) -> binlog.ConsumerGroup:
    """Open the group of the demo's workers; the first process creates it."""
    return binlog.ConsumerGroup(log, GROUP, retry=_RETRY)


def handle(item: binlog.Item, results: Path) -> None:
    """Handle one message, and report its start and its end."""
    send("started", item.sequence, item.delivery, time.monotonic_ns())
    if item.data == KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    if item.data == HANGS and item.delivery == 1:
        signal.pause()
    send("stored" if store(results, item.id, item.data) else "repeated", item.sequence)


def store(results: Path, identity: str, data: bytes) -> bool:
    """Store the result of a message; return False if it was stored before."""
    new = results / f".{os.getpid()}"
    new.write_text(result_of(data))
    try:
        os.link(new, results / identity)
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True


def result_of(data: bytes) -> str:
    """Return the result of a message."""
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Run the role."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--results", type=Path, required=True, help="the directory for the results")
    given = arguments.parse_args()
    end_with_director()
    with open_group(given.log) as group:
        group.work(lambda item: handle(item, given.results))


if __name__ == "__main__":
    main()
