"""WriterStat: what one writer has done in this process."""

from __future__ import annotations

from dataclasses import dataclass

from binlog.log.append.session import Session
from binlog.storage.mode import Mode


@dataclass(frozen=True, kw_only=True)
class WriterStat:
    """The counters of one writer in this process, since it was opened or, in a child, since the fork.

    Another thread may append meanwhile, so counters that belong together may differ by that append.

    records_sync, records_flush, records_stage: the records that it appended, by the mode of their calls.
    bytes_sync, bytes_flush, bytes_stage: the bytes of those records, without their lengths in the file.
    led_groups: the groups that it committed as the leader.  led_records: the records in them, of all writers.
    syncs: the commits that it synced, those of its background thread included.
    waits: the appends that had to wait, for another writer's lock or for another thread of this one.  An append with a
        time limit always counts, except in Mode.STAGE.
    wait_ns, wait_ns_max: the time of these waits in nanoseconds, of all together and of the longest.  A wait ends when
        the append has its outcome, so it may include a sync.
    busy: the appends that ended with BusyError.  unknown: those that ended with UnknownOutcomeError.
    """

    records_sync: int = 0
    records_flush: int = 0
    records_stage: int = 0
    bytes_sync: int = 0
    bytes_flush: int = 0
    bytes_stage: int = 0
    led_groups: int = 0
    led_records: int = 0
    syncs: int = 0
    waits: int = 0
    wait_ns: int = 0
    wait_ns_max: int = 0
    busy: int = 0
    unknown: int = 0


def writer_stat(session: Session) -> WriterStat:
    """Return the counters of a session."""
    own, led = session.fast_path, session.counters
    by_mode = {}
    for mode in Mode:
        name = mode.name.lower()
        by_mode[f"records_{name}"], by_mode[f"bytes_{name}"] = own.appended(mode)
    return WriterStat(
        **by_mode,
        led_groups=led.groups,
        led_records=led.records,
        syncs=led.syncs,
        waits=own.waits + led.waits,
        wait_ns=own.wait_ns + led.wait_ns,
        wait_ns_max=max(own.wait_ns_max, led.wait_ns_max),
        busy=own.busy,
        unknown=own.unknown,
    )
