"""A log with a fixed state, fixed records and a fixed clock, so that a screen of it is always the same."""

from __future__ import annotations

import json

import binlog
from binlog.cli.amounts import Amount
from binlog.cli.looking.filters import Filters
from binlog.cli.looking.views import RecordView
from binlog.cli.top.app import TopApp
from binlog.cli.top.record_feed import LevelRate, RecordFeed
from binlog.cli.watching.live_log import Snapshot
from binlog.consumers import GroupStat, MemberStat, Settings
from binlog.consumers.state.group_state import Counters
from binlog.seal import SealStat
from binlog.seal.sealing.anchoring import Anchored
from binlog.watching import FollowerStat, GroupView, LogView, SealView, Trend

NS = 10**9
NOW_NS = 1_738_324_800 * NS  # 2025-01-31T12:00:00Z
PATH = "/var/log/orders"
_HISTORY = [float((7 * second) % 40 + 20) for second in range(60)]
_WARNINGS = [float(second % 9 == 4) * 3 for second in range(60)]
_ERRORS = [0.0] * 52 + [1.0, 4.0, 2.0] + [0.0] * 5
_RECORD_COUNT = 48_212


def _file(number: int, *, closed: bool) -> binlog.FileStat:
    return binlog.FileStat(
        number=number,
        path=f"{PATH}/{number:08}.dat",
        closed=closed,
        next_number=number + 1 if closed else 0,
        first_offset=256,
        tail=8_388_608 if closed else 2_104_321,
        record_count=22_000 if closed else 4_212,
        first_sequence=22_000 * (number - 1),
        created_ns=NOW_NS - (4 - number) * 3600 * NS,
        uuid="0" * 32,
        has_foreign_writers=False,
        file_bytes=8_388_608,
        disk_bytes=8_388_608 if closed else 3_145_728,
        durable_end=8_388_608 if closed else 2_104_321,
    )


def _group(name: str, *, lag: int, members: int, dead: int, paused: bool = False) -> GroupView:
    stat = GroupStat(
        name=name,
        floor=_RECORD_COUNT - lag,
        next=_RECORD_COUNT - lag,
        lag=lag,
        lag_seconds=lag / 40,
        ready=0,
        delayed=dead // 2,
        blocked=0,
        in_hand=members,
        dying=0,
        oldest_in_hand=None,
        next_due_ns=None,
        held_bytes=0,
        epoch=0,
        is_paused=paused,
        members=tuple(
            MemberStat(
                seat=seat, generation=1, in_hand=(48_000 + seat,), hint=f"pid {700 + seat} on web1", is_alive=True
            )
            for seat in range(members)
        ),
        counters=Counters(dead=dead),
        settings=Settings(),
    )
    return GroupView(name, stat)


SNAPSHOT = Snapshot(
    view=LogView(
        time_ns=NOW_NS,
        log=binlog.LogStat(
            path=PATH,
            files=(_file(1, closed=True), _file(2, closed=True), _file(3, closed=False)),
            appended_ns=NOW_NS,
            epoch=1,
        ),
        followers=(
            FollowerStat(
                name="shipper.position",
                path=f"{PATH}/shipper.position",
                ref=binlog.Ref(3, 2_093_100),
                lag_records=57,
                lag_bytes=11_221,
                lag_seconds=1.4,
                updated_ns=NOW_NS - 1 * NS,
            ),
            FollowerStat(name="old.position", path=f"{PATH}/old.position", problem="its log file was removed"),
        ),
        groups=(
            _group("billing", lag=12, members=2, dead=3),
            _group("mail", lag=5_210, members=0, dead=0),
            _group("[b]search\x1b[31m", lag=0, members=1, dead=0, paused=True),
        ),
        seal=SealView(
            SealStat(
                origin="example.org/orders",
                size=48_190,
                checkpoint=None,
                next_ref=binlog.Ref(3, 2_100_000),
                unsealed_bytes=4_321,
                signed_ns=NOW_NS - 1 * NS,
                anchored={"vault": Anchored(48_100, NOW_NS / NS - 4)},
            ),
            22,
        ),
    ),
    seen=Amount(1000, 200_000),
    rate=Amount(42, 8_400),
    history=_HISTORY,
    last=[],
    trends={
        ("follower", f"{PATH}/shipper.position"): Trend(0.2, "steady"),
        ("group", "billing"): Trend(-3.4, "falling"),
        ("group", "mail"): Trend(41.8, "rising"),
    },
    problem=None,
)

_LEVELS = (("INFO", 9), ("INFO", 9), ("DEBUG", 5), ("WARNING", 13), ("INFO", 9), ("ERROR", 17))
_OTHER = {
    3: b"plain text with [bold]markup[/bold] and \x1b[31ma colour",
    5: bytes(range(256)),
    8: "größer \u202e".encode(),
}


def _record(number: int) -> bytes:
    if number % 10 in _OTHER:
        return _OTHER[number % 10]
    level, severity = _LEVELS[number % len(_LEVELS)]
    event = {
        "time": f"2025-01-31T11:59:{number:02}.250000Z",
        "severity": severity,
        "level": level,
        "logger": ("app.web", "app.db")[number % 2],
        "body": f"order {48_000 + number} of customer Müller was handled",
        "attributes": {"order": 48_000 + number, "customer": "Müller & Co"},
    }
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


RECORDS = [
    RecordView(
        "orders",
        binlog.Ref(3, 2_090_000 + 240 * number),
        _RECORD_COUNT - 60 + number,
        NOW_NS - (60 - number) * NS,
        _record(number),
        None,
    )
    for number in range(60)
]


class FixedLog:
    """The log, in the place of a LiveLog."""

    def update(self, *, whole: bool = False) -> None:
        """Do nothing: the log does not change."""

    def snapshot(self) -> Snapshot:
        """Return the state."""
        return SNAPSHOT


class FixedFeed(RecordFeed):
    """The records of the log."""

    def __init__(self) -> None:
        super().__init__([], Filters())
        self.shown.add(RECORDS)

    def level_rates(self) -> dict[str, LevelRate]:
        """Return fixed rates."""
        return {"warnings": LevelRate(0.5, _WARNINGS), "errors": LevelRate(0, _ERRORS)}


def fixed_app(*, ascii_only: bool = False) -> TopApp:
    """Return the screen of the log."""
    return TopApp([FixedLog()], FixedFeed(), utc=True, ascii_only=ascii_only)
