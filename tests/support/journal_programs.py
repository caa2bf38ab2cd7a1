"""Random programs of calls to a journal."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from binlog.errors import NotFoundError, StateError
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync

_Call = tuple[str, tuple[Any, ...]]

_IDS = st.integers(1, 6)
_TX_IDS = st.integers(100, 103)
_BODIES = st.integers(0, 90).map(lambda size: bytes([size]) * size)


def _calls(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[_Call]:
    return st.tuples(st.just(name), st.tuples(*arguments))


programs = st.lists(
    st.one_of(
        _calls("append_add", _IDS, st.just(1), _BODIES),
        _calls("append_update", _IDS, st.just(2), _BODIES),
        _calls("append_delete", _IDS),
        _calls("append_add_tx", _TX_IDS, _IDS, st.just(255), _BODIES),
        _calls("append_update_tx", _TX_IDS, _IDS, st.just(0), _BODIES),
        _calls("append_delete_tx", _TX_IDS, _IDS, _BODIES),
        _calls("prepare", _TX_IDS, _BODIES),
        _calls("commit", _TX_IDS),
        _calls("rollback", _TX_IDS),
    ),
    max_size=60,
)


def run(program: list[_Call], path: Path, options: JournalOptions) -> None:
    """Run all calls that are possible in a new journal, and close it."""
    with Journal(path, options) as journal:
        journal.load()
        for name, arguments in program:
            with contextlib.suppress(NotFoundError, StateError):
                getattr(journal, name)(*arguments, sync=Sync.LATER)
