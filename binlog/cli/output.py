"""Unbuffered writes to standard output, safe for terminals; plain-text tables.

Records and file names can contain control characters, which a terminal obeys: they set its title, clear it, or paint a
fake prompt.  So everything that a command prints goes through `write`, which escapes them if standard output is a
terminal.  Names and messages are made `printable` wherever they are written to.

Facts relied on:
- write(2) may write only a part, and fails with EAGAIN if another program made the terminal or pipe non-blocking.
- A process started with `>&-` has no descriptor 1, and the next file that it opens gets that number.
- poll(2): the write end of a pipe shows POLLERR once it has no reader.
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

# Other control characters; format characters, which reorder or hide their neighbours; lone surrogates; line separators.
# The two joiners are harmless: they join the letters of a word, or the parts of an emoji.
_ACTED_UPON = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINERS = "\u200c\u200d"
# The ASCII characters among them, except newline and tab.  Most records have none, and nothing outside of ASCII.
_ASCII_ACTED_UPON = re.compile(rb"[^\t\n\x20-\x7e]")


def guard_standard_descriptors() -> None:
    """Occupy the descriptors 0 to 2 if they are closed, so that no message ends up in a log file."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            # Opened the wrong way round, so that using it fails, as using the closed descriptor would.
            os.open(os.devnull, flags)  # gets the lowest free number, which is `fd`


def write(data: bytes) -> None:
    """Write all of `data` to standard output, escaped by `terminal_bytes` if that is a terminal.

    data: whole lines.  Raises: BrokenPipeError; OSError that names standard output.
    """
    write_printable(terminal_bytes(data) if os.isatty(STANDARD_OUTPUT) else data)


def write_printable(data: bytes) -> None:
    """Write all of `data` to standard output as it is: text made `printable`, with colours of our own.

    Raises: as `write`.
    """
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
    """Write one line of text."""
    write(text.encode("utf-8", "backslashreplace") + b"\n")


def raise_without_reader() -> None:
    """Raise BrokenPipeError if standard output is a pipe without a reader."""
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    poll = select.poll()
    poll.register(STANDARD_OUTPUT, 0)
    if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        raise BrokenPipeError


def terminal_bytes(data: bytes) -> bytes:
    """Return UTF-8 text in which a terminal finds no control characters but newlines and tabs."""
    if _ASCII_ACTED_UPON.search(data) is None:
        return data
    text = data.decode("utf-8", "backslashreplace")
    shown = "".join(char if char in "\n\t" or _is_shown(char) else _escaped(char) for char in text)
    return shown.encode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Return the text on one line, with everything escaped that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(char if _is_shown(char) else _escaped(char) for char in text)


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) not in _ACTED_UPON


def _escaped(char: str) -> str:
    # Beyond ASCII, escape as JSON does: the lines of --json, which have no other control characters, stay JSON.
    return char.encode("unicode_escape").decode("ascii") if char < " " else json.dumps(char)[1:-1]


_GAP = "  "


def write_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = (), droppable: Sequence[str] = ()
) -> None:
    """Print a header line and one line for each row.

    left: names of the columns that hold text.  droppable: names of the columns to leave out on a narrow terminal, in
    this order.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in (names, *cells)) for at in range(len(names))]
    shown = _fitting_columns(names, widths, droppable)
    for row in (names, *cells):
        line = (row[at].ljust(widths[at]) if names[at] in left else row[at].rjust(widths[at]) for at in shown)
        write_line(_GAP.join(line).rstrip())


def _fitting_columns(names: Sequence[str], widths: Sequence[int], droppable: Sequence[str]) -> list[int]:
    """Return the indexes of the columns that fit."""
    shown = list(range(len(names)))
    room = os.get_terminal_size(STANDARD_OUTPUT).columns if os.isatty(STANDARD_OUTPUT) else 0
    for name in droppable if room else ():
        if sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1) <= room:
            break
        shown.remove(names.index(name))
    return shown
