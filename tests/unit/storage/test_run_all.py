"""run_all: each step runs, and the first exception is raised, whatever the others raise because of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binlog.commitlog import Flush, Message, MessageStore
from binlog.commitlog.append.flush_services import FlushRealTimeService
from binlog.errors import PoisonedError
from binlog.storage.handle import run_all
from tests.support.failing import raising
from tests.support.stores import SMALL


def test_each_step_runs_and_the_first_exception_is_raised() -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run_all(
            lambda: done.append(1),
            raising(KeyboardInterrupt()),
            lambda: done.append(2),
            raising(PoisonedError("later")),
        )
    assert done == [1, 2]
    run_all(lambda: done.append(3))
    assert done == [1, 2, 3]


def test_ctrl_c_while_a_store_closes_is_raised_though_the_store_is_poisoned_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MessageStore(tmp_path, replace(SMALL, flush=Flush.ASYNC))
    store.append(Message("t", b"message"))

    def interrupted(_: FlushRealTimeService) -> None:
        with store._guard.change():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(store._flushing), "stop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    with pytest.raises(PoisonedError):
        store.close()
    with MessageStore(tmp_path, SMALL) as again:
        assert [message.body for message in again.pull("t", 0, 0, 10)] == [b"message"]
