"""What the times in a log are believed to say: a clock may have been wrong when any of them was written.

A time in the future is not believed.  Of several that contradict, the latest that is believed counts where something is
to be kept, for a clock that was behind makes records look older than they are.
"""

from __future__ import annotations

from collections.abc import Sequence


def believed_ns(time_ns: int, now_ns: int) -> int:
    """A time, or 0 for one that is in the future."""
    return time_ns if time_ns <= now_ns else 0


def closing_times(told: Sequence[Sequence[int]], now_ns: int) -> list[int]:
    """When each file was closed, for those that are to be kept for some time after that.

    told: of each file, in order, the times that tell something: when it was made, when its records were there, and at
    the end when the next one was made.
    A file was closed no earlier than any file before it.  If the last of its times is not believed, then it was closed
    before the files behind it were, or just now.
    """
    found = []
    latest = 0
    for times in told:
        latest = max([latest, *(believed_ns(time_ns, now_ns) for time_ns in times)])
        found.append(latest)
    upper = now_ns
    for index in reversed(range(len(told))):
        if not told[index] or not believed_ns(told[index][-1], now_ns):
            found[index] = max(found[index], upper)
        upper = found[index]
    return found
