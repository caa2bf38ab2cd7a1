"""What a process does whose system calls fail: it goes on with the next step whatever the last one raised."""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from binlog import Mode, Writer
from binlog.errors import BinlogError, InternalError, PoisonedError
from binlog.log.succession import Succession
from stress.crash.descriptors import left_open, open_descriptors
from stress.crash.drafting import ASIDE
from stress.crash.ledger import Own
from stress.crash.striker import Action, Kind, Strike

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OFTEN = 40
"""For ever, for what a caller may rightly try again: a signal's interruption."""

Step = Callable[[Writer, Own, Path], None]
"""With the log's path."""


class Handle(Protocol):
    """A log or store that is open."""

    def close(self) -> None:
        """Close it."""


HandleT = TypeVar("HandleT", bound=Handle)

_PAGES_BYTES = 9000
"""A record that has a page of its own: what shares one with a later append is written anew with it, and so the later
sync makes good what one that failed left out."""


@dataclass(frozen=True)
class Fault:
    """One kind of failure.  names_end: it befalls only files whose names end so."""

    kinds: tuple[Kind, ...]
    error: int = 0  # 0: the call is short
    names_end: str = ""

    def strike(self, first: int, *, for_ever: bool) -> Strike:
        """The order for it, from the `first` such call on."""
        count = (OFTEN if self.error == errno.EINTR else -1) if for_ever else 1
        action = Action.FAIL if self.error else Action.SHORT
        return Strike(action, first, self.kinds, count, self.error, self.names_end)

    @property
    def name(self) -> str:
        """As it is told."""
        kinds = "+".join(kind.name for kind in self.kinds) + (f" of *{self.names_end}" if self.names_end else "")
        return f"{kinds} {errno.errorcode[self.error] if self.error else 'short'}"

    @property
    def harmless(self) -> bool:
        """Whether nobody is to be told of it."""
        return self.error in (0, errno.EINTR) or self.kinds in ((Kind.MEMORY,), (Kind.MAP,), (Kind.TRUNCATE,))

    @property
    def of_syncs(self) -> bool:
        """Whether syncs fail: then what the disk holds is not what the page cache says."""
        return self.error != errno.EINTR and bool({Kind.DATA_SYNC, Kind.SYNC} & set(self.kinds))


def _faults() -> dict[str, Fault]:
    errors = {
        Kind.WRITE: (0, errno.EIO, *NO_SPACE, errno.EINTR),
        Kind.DATA_SYNC: (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR),
        Kind.SYNC: (errno.EIO,),
        Kind.ALLOCATE: (*NO_SPACE, errno.EIO, errno.EINTR),
        Kind.TRUNCATE: (errno.EIO,),
        Kind.OPEN: (errno.EIO, errno.EMFILE, errno.ENOSPC),
        Kind.MEMORY: (errno.ENOSPC, errno.EACCES, errno.EMFILE),
        Kind.LINK: (errno.EIO, errno.ENOSPC),
        Kind.UNLINK: (errno.EIO,),
        Kind.MAKE_DIRECTORY: (errno.ENOSPC,),
        Kind.MAP: (errno.ENOMEM,),
        Kind.LOCK: (errno.EINTR, errno.ENOLCK),
        Kind.READ: (0, errno.EIO, errno.EINTR),
        Kind.POPULATE: (errno.EFAULT, errno.ENOMEM),
    }
    faults = [Fault((kind,), error) for kind, found in errors.items() for error in found]
    faults.append(Fault((Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC), errno.EIO))  # the disk has gone
    return {fault.name: fault for fault in faults}


FAULTS = _faults()


def _in(mode: Mode, size: int = 0) -> Step:
    return lambda writer, own, _: own.append(writer, mode, size=size)


def _many(count: int) -> Step:
    return lambda writer, own, _: own.append_many(writer, count)


def _cutover(writer: Writer, _own: Own, _log: Path) -> None:
    writer.cutover()


def _sync(writer: Writer, own: Own, _: Path) -> None:
    own.sync(writer)


def _turn(writer: Writer, own: Own, _: Path) -> None:
    own.append_turn(writer, 3)


def _drafts(writer: Writer, own: Own, log: Path) -> None:
    own.append_drafts(writer, log / ASIDE, (2, 1))


_append = _in(Mode.SYNC)
_pages = _in(Mode.SYNC, _PAGES_BYTES)
_grow = _in(Mode.SYNC, 3000)

SCENARIOS: dict[str, tuple[Step, ...]] = {
    "append": (_append, _pages, _append),
    "append_many": (_many(3), _many(2)),
    "flush": (_in(Mode.FLUSH), _in(Mode.FLUSH, _PAGES_BYTES), _sync, _in(Mode.FLUSH)),
    "stage": (_in(Mode.FLUSH), _in(Mode.STAGE), _in(Mode.STAGE), _pages, _in(Mode.STAGE), _sync, _in(Mode.STAGE)),
    "grow": (_grow, _grow, _grow),
    "cutover": (_pages, _in(Mode.FLUSH), _cutover, _append),
    "turns": (_turn, _pages, _turn),
    "drafts": (_drafts, _append, _drafts),
}


@dataclass
class Fared:
    """How a process fared: the kinds of its errors, in their order, and what was wrong with them.

    refuses_all: whether all is to be refused once a write or sync has failed.
    alone: whether it failed while a log's open file was found by its name, as behind drafts.  That is told to this
        process alone, as to one that opens the log: nothing was appended, and whoever finds the file next writes and
        syncs anew what this one was to.
    """

    errors: list[str]
    wrong: list[str]
    opened: bool = False
    poisoned: bool = False  # while the log was open
    refuses_all: bool = True
    alone: bool = False

    def attempt(self, what: str, step: Callable[[], None]) -> BinlogError | None:
        """Make a step; what it raised."""
        try:
            step()
        except BinlogError as error:
            self.errors.append(type(error).__name__)
            if isinstance(error, InternalError):
                self.wrong.append(f"{what}: InternalError: {error}")
            if self.poisoned and self.refuses_all and not isinstance(error, PoisonedError):
                self.wrong.append(f"{what} after a failed sync: {type(error).__name__}: {error}")
            if self.opened and isinstance(error, PoisonedError) and not self.poisoned:
                self.poisoned = True
                self.alone = _is_of_finding(error)
            return error
        if self.poisoned and self.refuses_all:
            self.wrong.append(f"{what} was accepted after a failed write or sync")
        return None


def _is_of_finding(error: PoisonedError) -> bool:
    return any(frame.f_code is Succession.find.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def run(
    open_: Callable[[], HandleT],
    steps: Sequence[Callable[[HandleT], None]],
    last: Callable[[HandleT], None],
    end_of_fault: Callable[[], None],
    *,
    background_tells: bool = False,
    refuses_all: bool = True,
) -> Fared:
    """Open and take the steps, then have the fault end, and take the last one.

    background_tells: whether the last step, and closing, may say what befell something in the background.
    refuses_all: as in `Fared`.
    """
    fared = Fared([], [], refuses_all=refuses_all)
    handle: HandleT | None = None
    error: BinlogError | None = None

    def opening() -> None:
        nonlocal handle
        handle = open_()

    descriptors = open_descriptors()
    for number, step in enumerate((*steps, None)):
        if step is None:
            end_of_fault()
        if handle is None:
            error = fared.attempt("opening", opening)
            fared.opened = handle is not None
            if step is None and error is not None:
                fared.wrong.append(f"opening when the fault was over: {type(error).__name__}: {error}")
        if handle is not None:
            chosen, opened = step or last, handle
            error = fared.attempt(f"step {number}", lambda: chosen(opened))  # noqa: B023
            told = background_tells or isinstance(error, PoisonedError)
            if step is None and error is not None and not told:
                fared.wrong.append(f"appending when the fault was over: {type(error).__name__}: {error}")
    if handle is not None:
        closed = handle
        poisoned, fared.poisoned = fared.poisoned, False  # closing what is poisoned is no appending
        error = fared.attempt("closing", closed.close)
        fared.poisoned |= poisoned
        if error is not None and not poisoned and not background_tells:
            fared.wrong.append(f"closing when the fault was over: {type(error).__name__}: {error}")
        del closed, opened
    del handle, error
    gc.collect()
    fared.wrong += left_open(descriptors)
    return fared
