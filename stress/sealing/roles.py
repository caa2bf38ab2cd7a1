"""The processes that change a sealed log, each of which runs until it is stopped."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import binlog
from binlog import Background, Batch, ExternalFile, ExternalFileWriter, Mode, Writer
from binlog.errors import SealError
from binlog.seal import SigningKey, hold, prune, release

Stopped = Callable[[], bool]

KEPT_BYTES = 1 << 16
_CUTOVER_BYTES = 1 << 18
_PAUSE_SECONDS = 0.02
_SHORT = Background(flush_seconds=0.02, sync_seconds=0.1)


def _append(log: Path, mode: Mode, stopped: Stopped) -> None:
    dice = random.Random(mode.name)
    while not stopped():
        with Writer(log, mode=mode, cutover_bytes=_CUTOVER_BYTES, background=_SHORT) as writer:
            for number in range(dice.randrange(500)):
                if stopped():
                    return
                writer.append(b"%d " % number + dice.randbytes(dice.randrange(500)))
                writer.append_many([b"many %d" % place for place in range(dice.randrange(20))])
                time.sleep(_PAUSE_SECONDS)


def sync(log: Path, key: Path, stopped: Stopped) -> None:
    """Append durably."""
    _append(log, Mode.SYNC, stopped)


def flush(log: Path, key: Path, stopped: Stopped) -> None:
    """Append without waiting for the disk."""
    _append(log, Mode.FLUSH, stopped)


def stage(log: Path, key: Path, stopped: Stopped) -> None:
    """Append to shared memory."""
    _append(log, Mode.STAGE, stopped)


def ingest(log: Path, key: Path, stopped: Stopped) -> None:
    """Add external files, which become files of the log."""
    aside = log / "aside"
    aside.mkdir(exist_ok=True)
    with Writer(log) as writer:
        sequence = 0
        while not stopped():
            files = [_external_file(aside, sequence, part) for part in range(2)]
            writer.ingest(files, producer="sealing", sequence=sequence)
            sequence += 1
            time.sleep(10 * _PAUSE_SECONDS)


def _external_file(aside: Path, sequence: int, part: int) -> ExternalFile:
    with ExternalFileWriter(aside / os.urandom(8).hex()) as external:
        external.append(Batch.from_records([b"ingested %d %d %d" % (sequence, part, place) for place in range(50)]))
        return external.finish()


def maintain(log: Path, key: Path, stopped: Stopped) -> None:
    """Cut over, archive closed files, and remove the oldest ones; now and then a hold keeps them for a while."""
    signing = SigningKey.load(key)
    turn = 0
    with Writer(log) as writer:
        while not stopped():
            turn += 1
            writer.cutover()
            binlog.archive(log, keep_last=2)
            if turn % 10 == 3:
                hold(log, signing, "inquiry", why="a court asks for it")
            elif turn % 10 == 6:
                release(log, signing, "inquiry")
            try:
                prune(log, signing, keep_bytes=KEPT_BYTES, why="there is no space for more")
            except SealError as error:
                if "not sealed whole yet" not in str(error) and "under the hold" not in str(error):
                    raise
            time.sleep(10 * _PAUSE_SECONDS)


ROLES = (sync, flush, stage, ingest, maintain)
