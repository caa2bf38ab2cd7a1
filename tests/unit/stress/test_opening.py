"""The measurement of a page store's opening: a process that is killed, and the check of its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog import Mode
from binlog.pagestore import PageStoreOptions, stat_page_store
from stress.bench.peers import our_page_store as opening

SMALL = PageStoreOptions(log_bytes=64 << 10, mode=Mode.FLUSH)


@pytest.fixture(autouse=True)
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OPTIONS", SMALL)


@pytest.mark.slow
def test_everything_is_in_the_log_until_the_store_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store"
    count = opening.kill_with_full_log(path)
    assert 40 < count < 60
    stat = stat_page_store(path)
    assert stat.record_count == count + 1  # one more record created the queue
    opening.forget_all(path)
    assert opening.seconds_to_open(path, count) > 0
    assert stat_page_store(path).record_count == 0


def test_a_store_that_lost_a_message_is_no_measurement(tmp_path: Path) -> None:
    path = tmp_path / "store"
    count = opening.kill_with_full_log(path)
    with pytest.raises(AssertionError, match=f"{count} messages were found, of {count + 1}"):
        opening.seconds_to_open(path, count + 1)


def test_a_process_that_could_not_fill_the_log_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        opening.kill_with_full_log(tmp_path / "nowhere" / "store")
    assert "nowhere" in capfd.readouterr().err
