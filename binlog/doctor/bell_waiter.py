"""The process that waits for a doorbell: `python -m binlog.doctor.bell_waiter FILE OFFSET`.

It prints "ready" before it waits, and then "woken", "timeout" or "polled".
"""

from __future__ import annotations

import os
import sys
import time

from binlog.storage.waiting.doorbell import Doorbell

SECONDS_MAX = 5.0


def main(path: str, offset: int) -> None:
    """Wait for the doorbell at an offset of a file, until it is rung."""
    bell = Doorbell(os.open(path, os.O_RDONLY | os.O_CLOEXEC), offset)
    print("ready", flush=True)
    start = time.monotonic()
    bell.wait(bell.value(), SECONDS_MAX)
    if not bell.is_mapped:
        print("polled")
    else:
        print("woken" if time.monotonic() - start < SECONDS_MAX else "timeout")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
