"""Loads at the same time as another load or a close."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from binlog.errors import BusyError, ClosedError, StateError
from binlog.journal.journal import Journal
from binlog.journal.loading.loading import Loading
from binlog.journal.record import Loaded
from tests.support.journals import SMALL, ids, reload


class _Held:
    """Blocks a load in the middle, until `resume` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.resume = threading.Event(), threading.Event()
        plain = Loading.loaded

        def held(loading: Loading) -> Loaded:
            self.entered.set()
            assert self.resume.wait(60)
            return plain(loading)

        monkeypatch.setattr(Loading, "loaded", held)


@pytest.mark.slow
def test_close_waits_for_a_running_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = _Held(monkeypatch)
    opened = Journal(tmp_path, SMALL)
    opened.start()
    with ThreadPoolExecutor(2) as threads:
        loading = threads.submit(opened.load)
        assert held.entered.wait(60)
        closing = threads.submit(opened.close)
        assert not wait([closing], timeout=0.2).done
        with pytest.raises(BusyError):
            Journal(tmp_path, SMALL).start()
        held.resume.set()
        assert loading.result(60).records == []
        closing.result(60)
    with pytest.raises(ClosedError):
        opened.append_add(1, 1, b"")
    assert reload(tmp_path).records == []


@pytest.mark.slow
def test_one_of_two_concurrent_loads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = _Held(monkeypatch)
    with Journal(tmp_path, SMALL) as opened, ThreadPoolExecutor(2) as threads:
        first = threads.submit(opened.load)
        assert held.entered.wait(60)
        second = threads.submit(opened.load)
        assert not wait([second], timeout=0.2).done
        held.resume.set()
        assert first.result(60).records == []
        with pytest.raises(StateError):
            second.result(60)
        opened.append_add(1, 1, b"")
    assert ids(reload(tmp_path)) == [1]
