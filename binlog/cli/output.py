"""Writing to standard output, past Python's own buffer: to a pipe or file as it is, to a terminal harmless.

Whoever appends a record, or names a file, may put control characters into it, which a terminal obeys: they set its
title, clear it, or paint a prompt that is none.  So everything that a command prints passes `write`, which escapes them
if standard output is a terminal.  Names and messages are `printable` wherever they go.

Facts relied on:
- write(2) may take a part, and says EAGAIN where somebody made the terminal or pipe non-blocking.
- A process started with `>&-` has no descriptor 1, and the next file that it opens gets that number.
- poll(2): the write end of a pipe shows POLLERR once there is no reader.

Tables that commands end with: plain text, numbers to the right.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
import unicodedata
from collections.abc import Sequence

STANDARD_OUTPUT = 1

# Other control characters, format characters (which reorder or hide what is around them), lone surrogates, and
# separators of lines.  The two joiners only join the letters of a word, or the parts of an emoji.
_ACTED_UPON = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINERS = "\u200c\u200d"
# What ASCII has of them, without the newline and the tab: the text of most records has none, and no other letters.
_ASCII_ACTED_UPON = re.compile(rb"[^\t\n\x20-\x7e]")


def guard_standard_descriptors() -> None:
    """Keep the numbers 0 to 2 from files of ours, so that no message lands in a log file."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            # Opened the wrong way round: using it is an error, as it would be on the closed descriptor.
            os.open(os.devnull, flags)  # the lowest free number, which is `fd`


def write(data: bytes) -> None:
    """Write all of `data` to standard output: as it is, or if that is a terminal as `terminal_bytes` has it.

    data: whole lines.  Raises: BrokenPipeError; OSError that names standard output.
    """
    view = memoryview(terminal_bytes(data) if os.isatty(STANDARD_OUTPUT) else data)
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


def terminal_bytes(data: bytes) -> bytes:
    """Return UTF-8 text in which a terminal finds nothing to act upon but newlines and tabs."""
    if _ASCII_ACTED_UPON.search(data) is None:
        return data
    text = data.decode("utf-8", "backslashreplace")
    shown = "".join(char if char in "\n\t" or _is_shown(char) else _escaped(char) for char in text)
    return shown.encode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Return the text on one line, with everything escaped that a terminal acts upon instead of showing it."""
    if text.isprintable():
        return text
    return "".join(char if _is_shown(char) else _escaped(char) for char in text)


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) not in _ACTED_UPON


def _escaped(char: str) -> str:
    # Beyond ASCII as JSON has it: in the lines of --json, which have no other control characters, it stays JSON.
    return char.encode("unicode_escape").decode("ascii") if char < " " else json.dumps(char)[1:-1]


_GAP = "  "


def write_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = (), droppable: Sequence[str] = ()
) -> None:
    """A line for the names and one for each row.

    left: the names of columns that are text.  least: of those that a terminal too narrow for all goes without, the
    first one first.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in (names, *cells)) for at in range(len(names))]
    shown = _fitting_columns(names, widths, droppable)
    for row in (names, *cells):
        line = (row[at].ljust(widths[at]) if names[at] in left else row[at].rjust(widths[at]) for at in shown)
        write_line(_GAP.join(line).rstrip())


def _fitting_columns(names: Sequence[str], widths: Sequence[int], droppable: Sequence[str]) -> list[int]:
    """The columns that are shown."""
    shown = list(range(len(names)))
    room = os.get_terminal_size(STANDARD_OUTPUT).columns if os.isatty(STANDARD_OUTPUT) else 0
    for name in droppable if room else ():
        if sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1) <= room:
            break
        shown.remove(names.index(name))
    return shown
