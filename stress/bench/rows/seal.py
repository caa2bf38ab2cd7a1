"""The seal: the cost of a sealer for the writers, how soon it seals, the rate of verification, and memory."""

from __future__ import annotations

from binlog import Mode
from stress.bench.contestant import FLOOR, OURS, RECORD_BYTES, Contestant, Measure, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_seal, ours
from stress.bench.peers.our_seal import SIGNED_EVERY
from stress.bench.peers.packages import missing_package

BESIDE, LATENCY, WAIT, MEMORY = "seal-8", "seal-latency", "seal-wait", "seal-memory"

UNSEALED = f"{OURS}, no sealer"
HASHED = f"{FLOOR}SHA-256"
ANCHORED = f"{OURS}, one anchor"
VERIFIER = f"{OURS}, verify"

VERIFIED_RECORD_BYTES = (RECORD_BYTES, 4096)

_PROCESSES = 8
_BYTES_A_SECOND = 1 << 28
_LONG_FACTOR = 5
_missing = missing_package("cryptography", "cryptography")


def verify_name(record_bytes: int) -> str:
    """Return the name of the row of `verify` with records of this size."""
    return f"seal-verify-{record_bytes}"


def rows() -> list[Row]:
    """Return all rows."""
    return [_beside(), *(_verify(size) for size in VERIFIED_RECORD_BYTES), _latency(), _wait(), _memory()]


def _beside() -> Row:
    return Row(
        name=BESIDE,
        title=f"Durable appends, one record a call, {_PROCESSES} processes, while a sealer seals the log every "
        f"{SIGNED_EVERY}",
        unit=Unit.RECORDS,
        seconds_factor=_LONG_FACTOR,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            _ours(
                "`Writer.append` in `Mode.SYNC`; each process has a writer of its own. `binlog seal run` is one more "
                "process; at the end it must have sealed every record.",
                our_seal.appending(_PROCESSES),
            ),
            Contestant(
                name=UNSEALED,
                how="The same `Writer.append`, and no sealer.",
                measure=measuring(ours.one_a_call(Mode.SYNC), processes=_PROCESSES, keep_waits=True),
            ),
        ),
    )


def _verify(record_bytes: int) -> Row:
    return Row(
        name=verify_name(record_bytes),
        title=f"Verifying a sealed log of records of {record_bytes:,} bytes in the page cache, a second of CPU time "
        f"({our_seal.BYTES_A_SECOND // 1_000_000} MB times the seconds of a measurement)",
        unit=Unit.MEGABYTES,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            _ours(
                "`seal.verify`, which hashes each record, compares the hashes with the stored ones, and computes the "
                "root of the tree.",
                our_seal.verifying(record_bytes),
            ),
            Contestant(
                name=HASHED,
                how="`hashlib.sha256` of the same records in memory, one after the other in one call.",
                measure=our_seal.hashing(record_bytes),
                missing=_missing,
            ),
        ),
    )


def _latency() -> Row:
    return Row(
        name=LATENCY,
        title=f"From the return of a durable append until a checkpoint covers the record, if no caller waits and a "
        f"sealer seals every {SIGNED_EVERY}",
        unit=Unit.SECONDS,
        seconds_factor=_LONG_FACTOR,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            _ours(
                "Single records, one after another with a pause between. The file `seal/checkpoint` is read each "
                "millisecond.",
                our_seal.until_sealed(),
            ),
        ),
    )


def _wait() -> Row:
    return Row(
        name=WAIT,
        title="`seal.wait` for a record that was appended durably just before, while a sealer sleeps",
        unit=Unit.MICROSECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            _ours("From the call of `seal.wait` to its return.", our_seal.waited_for(anchors=0)),
            Contestant(
                name=ANCHORED,
                how="The same with `anchored=1`; the sealer has the anchor `dir:`, a directory on the same disk.",
                measure=our_seal.waited_for(anchors=1),
                missing=_missing,
            ),
        ),
    )


def _memory() -> Row:
    return Row(
        name=MEMORY,
        title=f"The most memory of a process that works on a log of records of {RECORD_BYTES} bytes "
        f"({our_seal.BYTES_A_SECOND // 1_000_000} MB times the seconds of a measurement)",
        unit=Unit.MEBIBYTES,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            _ours("`VmHWM` of `binlog seal once`, which seals the whole log.", our_seal.memory(verifying=False)),
            Contestant(
                name=VERIFIER,
                how="`VmHWM` of `binlog seal verify`.",
                measure=our_seal.memory(verifying=True),
                missing=_missing,
            ),
        ),
    )


def _ours(how: str, measure: Measure) -> Contestant:
    return Contestant(name=OURS, how=how, measure=measure, missing=_missing)
