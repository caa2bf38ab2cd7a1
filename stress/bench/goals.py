"""The goals: ratios within one run, reported in the table and never asserted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from binlog.commitlog.options import Flush
from stress.bench.contestant import OURS
from stress.bench.peers.queue_work import QueueWork
from stress.bench.rounds import Results, ratio
from stress.bench.rows import (
    alike,
    commit_log,
    durable,
    group_rates,
    groups,
    journal,
    log_handlers,
    pagestore,
    paging,
    reading,
    seal,
    spark,
    unsynced,
    waking,
)
from stress.bench.sample import Spread


@dataclass(frozen=True)
class Goal:
    """One goal.  most: whether the bound is an upper one."""

    what: str
    bound: float
    reached: Callable[[Results], Spread | None]
    most: bool = False

    @property
    def aim(self) -> str:
        """The bound in words."""
        return f"{'at most' if self.most else 'at least'} {self.bound:,}"

    def met(self, spread: Spread) -> bool:
        """Return whether the median is within the bound."""
        return spread.median <= self.bound if self.most else spread.median >= self.bound


def goals() -> list[Goal]:
    """Return all goals, in the order of the rows."""
    return [
        *_durable(),
        *_unsynced(),
        *_reading(),
        _waking(),
        *_log_handlers(),
        *_seal(),
        *_group_rates(),
        *_groups(),
        *_commit_log(),
        *_journal(),
        *_paging(),
        *_pagestore(),
        *_spark(),
    ]


def _durable() -> list[Goal]:
    one = durable.row_name(1)
    return [
        Goal("durable, 1 process, to the floor", 0.75, _against(one, durable.FLOOR)),
        Goal("durable, 1 process, to the classic order", 1.8, _against(one, durable.CLASSIC)),
        *(
            Goal(f"durable, {count} processes, to our own 1 process", bound, _against_one(durable.row_name(count), one))
            for count, bound in ((8, 3.5), (16, 6), (32, 9))
        ),
        *(
            Goal(f"durable, {count} processes, to SQLite", bound, _against(durable.row_name(count), durable.SQLITE))
            for count, bound in ((8, 3.5), (16, 6))
        ),
        *(
            Goal(
                f"longest wait, {count} processes, to SQLite's",
                0.1,
                _longest(durable.row_name(count), durable.SQLITE),
                most=True,
            )
            for count in (8, 16)
        ),
    ]


def _unsynced() -> list[Goal]:
    return [
        Goal("not synced, to the system calls alone", 0.7, _against(unsynced.FLUSH, unsynced.CALLS)),
        Goal("not synced, to SQLite NORMAL", 2, _against(unsynced.FLUSH, unsynced.SQLITE)),
        Goal("staged, records/s", 1_500_000, _figure(unsynced.STAGE)),
        Goal(
            "staged, to the disk's rate, if it is below 1,500,000/s",
            1,
            _against(unsynced.STAGE, unsynced.BLOCKS_SYNCED),
        ),
        Goal("100 records a call, not synced, records/s", 2_000_000, _figure(unsynced.BULK)),
    ]


def _reading() -> list[Goal]:
    bounds = ((reading.ENTRIES, 2), (reading.BATCHES_AS_BYTES, 4), (reading.BATCHES_AS_OFFSETS, 6))
    return [
        Goal(f"reading, {name.removeprefix(f'{OURS}, ')}, records/s", millions * 1_000_000, _figure(reading.NAME, name))
        for name, millions in bounds
    ]


def _waking() -> Goal:
    # Including everything before the doorbell: the harder of the two measurements.
    def reached(results: Results) -> Spread | None:
        ours, floor = (results.find(waking.NAME, name) for name in (waking.FROM_THE_CALL, waking.FLOOR))
        return ratio(ours, floor)

    return Goal("waking a reader (binlog, flush), to floor: futex", 2, reached, most=True)


def _log_handlers() -> list[Goal]:
    aims = ((log_handlers.TEXT, 0.95), (log_handlers.CONCURRENT, 2), (log_handlers.LOGURU_ENQUEUE, 5))
    return [
        *(
            Goal(
                f"logging, CPU time of a record, to {peer}",
                round(1 / bound, 2),
                _against(log_handlers.CPU, peer),
                most=True,
            )
            for peer, bound in aims
        ),
        *(
            Goal(f"logging, {count} process{'es' if count > 1 else ''}, to {peer}", bound, _against(row, peer))
            for count in (1, 8)
            for row in (log_handlers.row_name(count),)
            for peer, bound in aims
        ),
    ]


def _seal() -> list[Goal]:
    waits = (("", OURS), (", one anchor", seal.ANCHORED))
    return [
        Goal("durable, 8 processes beside a sealer, to no sealer", 0.9, _against(seal.BESIDE, seal.UNSEALED)),
        *(
            Goal(f"seal, verify, {size:,} bytes, to SHA-256", bound, _against(seal.verify_name(size), seal.HASHED))
            for size, bound in zip(seal.VERIFIED_RECORD_BYTES, (0.5, 0.85), strict=True)
        ),
        Goal("seal, from an append to its checkpoint, p99, µs", 1_200_000, _p99_us(seal.LATENCY), most=True),
        *(
            Goal(f"seal, `wait` after an append{how}, p99, µs", 50_000, _p99_us(seal.WAIT, name), most=True)
            for how, name in waits
        ),
        Goal("seal, memory of a sealer, MiB", 64, _figure(seal.MEMORY), most=True),
        Goal("seal, memory of a verifier, MiB", 64, _figure(seal.MEMORY, seal.VERIFIER), most=True),
    ]


def _group_rates() -> list[Goal]:
    one, eight = group_rates.row_name(1), group_rates.row_name(8)
    sqlite, flush, batches = group_rates.SQLITE, group_rates.FLUSH, group_rates.BATCHES
    return [
        Goal("group, 1 worker, to our durable appends, 1 process", 0.8, _against(one, group_rates.LOG)),
        *(
            Goal(f"group, {workers} worker{'s' if workers > 1 else ''}, to SQLite FULL", bound, _against(row, sqlite))
            for workers, bound in ((1, 1.7), (8, 5), (16, 8))
            for row in (group_rates.row_name(workers),)
        ),
        Goal("group, longest wait, 8 workers, to SQLite's", 0.1, _longest(eight, sqlite), most=True),
        Goal("group, 8 workers, to our durable appends, 8 processes", 0.6, _against(eight, group_rates.LOG)),
        Goal("group, 8 workers, to Redis", 2, _against(eight, group_rates.REDIS)),
        Goal("group, not synced, to SQLite NORMAL", 2.5, _against(flush, group_rates.SQLITE_NORMAL)),
        Goal("group, not synced, to our appends that are not synced", 0.45, _against(flush, group_rates.LOG)),
        Goal("group, batches of 100, messages/s", 150_000, _figure(batches)),
    ]


def _groups() -> list[Goal]:
    most: list[tuple[str, float, Callable[[Results], Spread | None]]] = [
        ("group, from a kill to another worker, µs", 10_000, _figure(groups.KILLED)),
        ("group, from a kill to another worker, p99, µs", 80_000, _p99_us(groups.KILLED)),
        ("group, from the closed seat to another worker, µs", 1_000, _figure(groups.KILLED, groups.FREED)),
        ("group, waking a worker, to a reader", 2, _against(groups.WAKE, groups.READER)),
        ("group, processes of 32 that wake for one message", 2, _figure(groups.HERD)),
        ("group, time of a message while many wait, to few", 1.2, _against(groups.BACKLOG, groups.FEW)),
        ("group, opening, µs", 50_000, _figure(groups.OPENING)),
        ("group, wake-ups/s of an idle worker", 1, _figure(groups.IDLE)),
        ("group, a delayed message after its due time, p99, µs", 5_000, _p99_us(groups.DELAYED)),
        ("group, bytes of its log for a message", 80, _figure(groups.BYTES)),
        ("group, its space on the disk, MiB", 96, _figure(groups.DISK)),
        ("group, memory of a worker above a reader's, MiB", 8, _figure(groups.MEMORY)),
    ]
    return [
        *(Goal(what, bound, reached, most=True) for what, bound, reached in most),
        Goal("group, other keys while one is hot, to none hot", 0.9, _against(groups.HOT_KEY, groups.NO_HOT_KEY)),
        Goal("producer with 16 workers, to none", 0.8, _against(groups.PRODUCER, groups.ALONE)),
    ]


def _commit_log() -> list[Goal]:
    one, eight = commit_log.row_name(Flush.SYNC), commit_log.row_name(Flush.SYNC, 8)
    unsynced = (Flush.ASYNC, Flush.POOLED)
    return [
        Goal("commit log, sync, 8 threads, to our own 1 thread", 2.5, _against_one(eight, one)),
        *(
            Goal(f"commit log, {flush.value}, 1 a call, messages/s", 100_000, _figure(commit_log.row_name(flush)))
            for flush in unsynced
        ),
        *(
            Goal(f"commit log, {flush.value}, 32 a call, messages/s", 300_000, _figure(commit_log.batch_name(flush)))
            for flush in unsynced
        ),
        *(
            Goal(
                f"commit log, finding by {what}, µs",
                1000,
                _figure(commit_log.LOOKUP, commit_log.by_name(what)),
                most=True,
            )
            for what in commit_log.BY
        ),
    ]


def _journal() -> list[Goal]:
    one, most = journal.sync_name(1), journal.sync_name(64)
    return [
        Goal("journal, sync, 64 threads, to our own 1 thread", 5, _against_one(most, one)),
        Goal("journal, without waiting, records/s", 150_000, _figure(journal.LATER)),
        Goal("journal, loading, records/s", 500_000, _figure(journal.LOAD, journal.LOADED)),
        Goal("journal, scanning, records/s", 2_000_000, _figure(journal.LOAD, journal.SCANNED)),
    ]


def _paging() -> list[Goal]:
    return [
        Goal("queue, to single appends to our log", 0.334, _against(paging.RATE, paging.LOG)),
        Goal("queue, messages/s", 60_000, _figure(paging.RATE)),
        Goal("queue, memory above an empty queue's, MiB", 64, _figure(paging.MEMORY), most=True),
        Goal("queue of millions, to single appends to our log", 0.334, _against(paging.MANY, paging.LOG)),
        Goal("queue of millions, memory above an empty queue's, MiB", 64, _figure(paging.MANY_MEMORY), most=True),
    ]


def _pagestore() -> list[Goal]:
    return [
        *(
            Goal(
                f"page store, {work.value}, {threads} threads, to SQLite",
                bound,
                _against(pagestore.row_name(work, threads), alike.SQLITE),
            )
            for work in QueueWork
            for threads, bound in ((8, 1.5), (32, 2))
        ),
        *(
            Goal(f"page store, opening after a kill{how}, s", 2, _figure(pagestore.OPEN, name), most=True)
            for how, name in (("", OURS), (", without cached pages", pagestore.OPEN_FROM_DISK))
        ),
    ]


def _spark() -> list[Goal]:
    reading = [
        Goal(f"Spark, {query}, {what}", bound, _against(spark.read_name(query), other))
        for query in ("count", "length", "crc")
        for what, other, bound in (("to text", spark.TEXT, 0.6), ("to Python rows", spark.ROWS, 2))
    ]
    return [
        *reading,
        Goal(
            "Spark, crc, our four files to our one file", 1, _against(spark.read_name("crc"), spark.ONE_FILE), most=True
        ),
        Goal("Spark, extract to zstd, to a copy from Parquet", 0.8, _against(spark.EXTRACT, spark.PARQUET)),
        Goal("Spark, writing a log, to writing Parquet", 1, _against(spark.WRITE, spark.PARQUET)),
        Goal("Spark, from an append to its row, µs", 100_000, _figure(spark.LATENCY), most=True),
    ]


def _figure(row: str, contestant: str = OURS) -> Callable[[Results], Spread | None]:
    def reached(results: Results) -> Spread | None:
        found = results.find(row, contestant)
        return found.spread if found else None

    return reached


def _against(row: str, contestant: str) -> Callable[[Results], Spread | None]:
    return lambda results: ratio(results.find(row, OURS), results.find(row, contestant))


def _against_one(row: str, other: str) -> Callable[[Results], Spread | None]:
    return lambda results: ratio(results.find(row, OURS), results.find(other, OURS))


def _longest(row: str, contestant: str) -> Callable[[Results], Spread | None]:
    def reached(results: Results) -> Spread | None:
        waits = []
        for name in (OURS, contestant):
            found = results.find(row, name)
            waits.append([sample.waits for sample in found.samples if sample and sample.waits] if found else [])
        ratios = [ours.longest_ns / theirs.longest_ns for ours, theirs in zip(*waits, strict=False)]
        return Spread.of(ratios) if ratios else None

    return reached


def _p99_us(row: str, contestant: str = OURS) -> Callable[[Results], Spread | None]:
    def reached(results: Results) -> Spread | None:
        found = results.find(row, contestant)
        spread = found.wait_ns("p99_ns") if found else None
        return Spread(spread.median / 1000, spread.low / 1000, spread.high / 1000) if spread else None

    return reached
