"""Writing to standard output: bytes as they are, in large pieces, past Python's own buffer.

Facts relied on:
- write(2) may take a part, and says EAGAIN where somebody made the terminal or pipe non-blocking.
- A process started with `>&-` has no descriptor 1, and the next file that it opens gets that number.
- poll(2): the write end of a pipe shows POLLERR once there is no reader.
"""

from __future__ import annotations

import os
import select
import stat

STANDARD_OUTPUT = 1


def guard_standard_descriptors() -> None:
    """Keep the numbers 0 to 2 from files of ours, so that no message lands in a log file."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            # Opened the wrong way round: using it is an error, as it would be on the closed descriptor.
            os.open(os.devnull, flags)  # the lowest free number, which is `fd`


def write(data: bytes) -> None:
    """All of `data` to standard output.  Raises: BrokenPipeError; OSError that names standard output."""
    view = memoryview(data)
    try:
        while view:
            try:
                view = view[os.write(STANDARD_OUTPUT, view) :]
            except BlockingIOError:
                select.select([], [STANDARD_OUTPUT], [])
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def write_line(text: str) -> None:
    """A line of text."""
    write(text.encode("utf-8", "backslashreplace") + b"\n")


def refuse_without_reader() -> None:
    """Raise BrokenPipeError where standard output is a pipe that nobody reads any more."""
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    poll = select.poll()
    poll.register(STANDARD_OUTPUT, 0)
    if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        raise BrokenPipeError


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would act on rather than show."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
