"""A forked child of a test, whose failure is the test's."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import NoReturn


class Child:
    """Runs `work(*arguments)` in a forked child.  `join` fails with the child's traceback."""

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        self._errors, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._errors)
            _run(work, arguments, theirs)
        os.close(theirs)

    def join(self) -> None:
        """Wait until it has ended; raise AssertionError where it did not end well."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        # Not to the end of the pipe: a child of the child may live on and hold it open.
        os.set_blocking(self._errors, False)
        try:
            text = os.read(self._errors, 1 << 16).decode()
        except BlockingIOError:
            text = ""
        os.close(self._errors)
        assert status == 0, f"the child ended with {status}\n{text}"


def _run(work: Callable[..., object], arguments: tuple[object, ...], errors: int) -> NoReturn:
    status = 1
    try:
        work(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
        os.write(errors, traceback.format_exc().encode())
    finally:
        # Not sys.exit: what pytest and its plugins would do at the end belongs to the parent.
        os._exit(status)
