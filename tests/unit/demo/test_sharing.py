"""The demo's scene with workers: one is killed, a message kills others, and a wrong result is noticed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stress.demo import sharing, stages
from stress.demo.director import Place
from stress.demo.display import Display
from stress.demo.worker import KILLS, store

pytestmark = pytest.mark.slow


def test_killed_workers_lose_nothing_and_do_nothing_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Display() as display:
        assert stages.share(Place(tmp_path), display)
    out = capfd.readouterr().out
    for happened in (
        "kill -9 of worker",
        "ms after the kill: delivery 2",
        "has killed worker",
        "delivery 3 of 3",
        "worker died",
        "1,999 messages have one result each, and one is a dead letter.",
        "Nothing was lost, and nothing was done twice.",
    ):
        assert happened in out
    assert_a_changed_result_is_noticed(Place(tmp_path))


def assert_a_changed_result_is_noticed(place: Place) -> None:
    paths = sorted(place.results.iterdir())
    assert len(paths) == sharing.MESSAGES - 1
    stored = Counter(dict.fromkeys(range(sharing.MESSAGES), 1))
    assert sharing.judge(place, stored) == []
    paths[7].write_text("another")
    paths[8].unlink()
    store(place.results, f"0000-{2 * sharing.MESSAGES // 3}", KILLS)
    stored[3] = 2
    assert len(sharing.judge(place, stored)) == 4


def test_a_result_is_stored_once(tmp_path: Path) -> None:
    assert [store(tmp_path, "id-1", b"data"), store(tmp_path, "id-1", b"data")] == [True, False]
    assert [path.name for path in tmp_path.iterdir()] == ["id-1"]
