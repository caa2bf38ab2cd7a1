"""Faults of system calls, and a process that meets one and continues with its next step after any error."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from binlog.errors import BinlogError, InternalError, PoisonedError
from stress.crash.descriptors import left_open, open_descriptors
from stress.crash.preloaded.injector import Action, Injection, Kind

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OFTEN = 40
"""The count that means "always" if callers may retry: a signal's interruption."""


class Handle(Protocol):
    """An open engine."""

    def close(self) -> None:
        """Close it."""


HandleT = TypeVar("HandleT", bound=Handle)


@dataclass(frozen=True)
class Fault:
    """One kind of failure.  names_end: only files whose names end with this are affected."""

    kinds: tuple[Kind, ...]
    error: int = 0  # 0: the call returns short
    names_end: str = ""

    def injection(self, first: int, *, permanent: bool) -> Injection:
        """Return the injection that starts at the `first` such call."""
        count = (OFTEN if self.error == errno.EINTR else -1) if permanent else 1
        action = Action.FAIL if self.error else Action.SHORT
        return Injection(action, first, self.kinds, count, self.error, self.names_end)

    @property
    def name(self) -> str:
        """The name as printed."""
        kinds = "+".join(kind.name for kind in self.kinds) + (f" of *{self.names_end}" if self.names_end else "")
        return f"{kinds} {errno.errorcode[self.error] if self.error else 'short'}"

    @property
    def is_no_failure(self) -> bool:
        """Whether the product must retry and report nothing."""
        return self.error in (0, errno.EINTR)

    @property
    def of_syncs(self) -> bool:
        """Whether syncs fail: then the disk does not hold the data that the page cache shows."""
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


@dataclass
class FaultOutcome:
    """The outcome of a process that met a fault: the names of its errors, in order, and the violations.

    poisoned: whether a write or sync failed while it had something open.  alone: whether only this process is refused.
    """

    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    poisoned: bool = False
    alone: bool = False


class FaultedProcess:
    """A process that meets a fault.

    background_reports: whether the last step, and closing, may report a failure of background work.
    refuses_all: whether everything must be refused after a write or sync has failed.
    fails_only_here: whether a failure is reported to this process alone.
    """

    def __init__(
        self, *, background_reports: bool, refuses_all: bool, fails_only_here: Callable[[BinlogError], bool]
    ) -> None:
        self.outcome = FaultOutcome()
        self._background_tells = background_reports
        self._refuses_all = refuses_all
        self._fails_alone = fails_only_here
        self._opened = False

    def run(
        self,
        open_: Callable[[], HandleT],
        steps: Sequence[Callable[[HandleT], None]],
        last: Callable[[HandleT], None],
        end_of_fault: Callable[[], None],
    ) -> FaultOutcome:
        """Open, take the steps, end the fault, and take the last step."""
        outcome = self.outcome
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
                error = self._attempt("opening", opening)
                self._opened = handle is not None
                if step is None and error is not None:
                    outcome.wrong.append(f"opening after the fault: {type(error).__name__}: {error}")
            if handle is not None:
                chosen, opened = step or last, handle
                error = self._attempt(f"step {number}", lambda: chosen(opened))  # noqa: B023
                reported = self._background_tells or isinstance(error, PoisonedError)
                if step is None and error is not None and not reported:
                    outcome.wrong.append(f"appending after the fault: {type(error).__name__}: {error}")
        if handle is not None:
            closed = handle
            poisoned, outcome.poisoned = outcome.poisoned, False  # closing a poisoned handle is not an append
            error = self._attempt("closing", closed.close)
            outcome.poisoned |= poisoned
            if error is not None and not poisoned and not self._background_tells:
                outcome.wrong.append(f"closing after the fault: {type(error).__name__}: {error}")
            del closed, opened
        del handle, error
        gc.collect()
        outcome.wrong += left_open(descriptors)
        return outcome

    def _attempt(self, what: str, step: Callable[[], None]) -> BinlogError | None:
        """Take a step and return its error."""
        outcome = self.outcome
        try:
            step()
        except BinlogError as error:
            outcome.errors.append(type(error).__name__)
            if isinstance(error, InternalError):
                outcome.wrong.append(f"{what}: InternalError: {error}")
            if outcome.poisoned and self._refuses_all and not isinstance(error, PoisonedError):
                outcome.wrong.append(f"{what} after a failed sync: {type(error).__name__}: {error}")
            if self._opened and isinstance(error, PoisonedError) and not outcome.poisoned:
                outcome.poisoned = True
                outcome.alone = self._fails_alone(error)
            return error
        if outcome.poisoned and self._refuses_all:
            outcome.wrong.append(f"{what} was accepted after a failed write or sync")
        return None
