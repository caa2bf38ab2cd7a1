"""Writes the golden files with the real RocketMQ, and exchanges stores with it: `make commitlog-golden`."""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

from binlog.commitlog.options import Flush
from tests.interop.rocketmq import exchange, golden
from tests.interop.rocketmq.peer import StorePeer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.rocketmq", description=__doc__)
    parser.add_argument("--version", default="5.3.3", help="of org.apache.rocketmq:rocketmq-store")
    parser.add_argument("--jars", type=Path, help="a folder to keep them in; otherwise they are fetched for this run")
    parser.add_argument("--write", action="store_true", help="make the golden files anew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        peer = StorePeer(arguments.version, arguments.jars or Path(name, "jars"))
        if arguments.write:
            made = golden.make(peer)
            print(f"{made.name}: {made.stat().st_size} bytes")
            if peer.version in golden.FEATURES_ARCHIVE.name:
                for made in (golden.make_features(peer), golden.make_cut(peer)):
                    print(f"{made.name}: {made.stat().st_size} bytes")
        old = golden.is_old(peer.version)
        for flush, record_crc, killed in itertools.product(Flush, (True, False), (False, True)):
            if flush is Flush.POOLED and killed:
                continue  # RocketMQ does not read buffers in shared memory: see docs/durability.md
            seen = exchange.exchange(peer, flush=flush, record_crc=record_crc, killed=killed, old=old)
            how = "killed" if killed else "stopped cleanly"
            print(f"{arguments.version}: {flush.value} flush, record_crc={record_crc}, {how}: {seen}", flush=True)
        print(f"{arguments.version}: {exchange.locks(peer)}")


if __name__ == "__main__":
    main()
