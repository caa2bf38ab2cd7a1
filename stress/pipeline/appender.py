"""Append until standard input ends: python -m stress.pipeline.appender LOG WRITER."""

from __future__ import annotations

import random
import select
import sys

from binlog import Mode, Writer

_SECONDS = 0.01
_MODES = (Mode.SYNC, Mode.FLUSH, Mode.FLUSH)


def record_of(writer: int, index: int) -> bytes:
    """Return a record that names its writer and its index."""
    return b"%d:%d:" % (writer, index) + b"x" * (index * 37 % 300)


def main() -> None:
    """Append records, with occasional cutovers; then print their number."""
    log, writer = sys.argv[1], int(sys.argv[2])
    chance = random.Random(writer)
    index = 0
    with Writer(log) as out:
        while not select.select([sys.stdin], [], [], _SECONDS)[0]:
            count = chance.randint(1, 4)
            records = [record_of(writer, number) for number in range(index, index + count)]
            out.append_many(records, mode=chance.choice(_MODES))
            index += count
            if chance.random() < 0.002:
                out.cutover()
    print(index)


if __name__ == "__main__":
    main()
