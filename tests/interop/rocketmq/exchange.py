"""The exchange of stores: binlog writes one, the real RocketMQ reads it, and back."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import BusyError
from binlog.format.commitlog.message import COMMIT, PREPARED, ROLLBACK, TOPIC_BYTES_V1_MAX, TRANSACTION, StoredMessage
from binlog.format.commitlog.message_parts import KEYS, UNIQUE_KEY, Host, pack_host, parse_properties
from tests.interop.rocketmq.expected import as_reported, without_crc
from tests.interop.rocketmq.peer import StorePeer

# Retention removes nothing during the exchange.
NOTHING_REMOVED = Retention(hours=1e6, expire_ratio=2, force_ratio=2, full_ratio=2)
# The sizes in StorePeer.java.
OPTIONS = StoreOptions(
    file_bytes=1 << 14, units_in_file=20, key_index=KeyIndexSize(50, 60), retention=NOTHING_REMOVED
)  # fmt: skip
_SIX = pack_host(Host.parse("[2001:db8::17]:50000"))


def _messages() -> list[list[Message]]:
    """The appends of binlog, call by call, with the same kinds of messages as StorePeer.java."""
    half = 1000  # the host does not matter here
    calls = [
        [Message("orders", b"")],
        [Message("orders", bytes.fromhex("9d0ad96d"))],
        [Message.of("orders", b"x" * 300, queue_id=1, tag="paid", keys=["k1", "k2"], flag=-7, born_ms=5,
                    properties={"Ünïcode": "汉字 \U0001f600", UNIQUE_KEY: "7F00000100002A9F0001"})],
        [Message("orders", b"six", queue_id=1, born_host=_SIX, reconsume_count=3)],
        [Message("t" * 127, b"version 1")],
        [Message("t" * 128, b"version 2", queue_id=1)],
        [Message("orders", b"unended", b"KEYS\x01last", 2)],
        [Message.of("orders", b"half")._replace(system_flag=PREPARED)],
        [Message.of("orders", b"commit", keys=["transaction"])._replace(system_flag=COMMIT, prepared_offset=half)],
        [Message.of("orders", b"rollback", keys=["transaction"])._replace(system_flag=ROLLBACK, prepared_offset=half)],
    ]  # fmt: skip
    for number in range(90):
        tag = ("paid", "sent", "Aa", "BB", "汉字")[number % 5]
        keys = [f"order-{number}", "fifth"][: 1 + (number % 5 == 0)]
        body = b"message %d " % number * (number * 37 % 40)
        calls.append([Message.of("orders", body, queue_id=number % 3, tag=tag, keys=keys)])
        if number % 15 == 14:
            calls.append([
                Message.of("audit", b"x" * 150, queue_id=number // 15 % 2, keys=[f"batch-{each}"], flag=each)
                for each in range(4 + number // 3)
            ])  # fmt: skip
    return calls


def write_ours(folder: Path, options: StoreOptions, *, killed: bool, old: bool = False) -> None:
    """Write a store in a process that stops cleanly or is killed.  old: without topics that are too long for version
    4."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store = MessageStore(folder, options)
            for call in _messages():
                if not (old and len(call[0].topic) > TOPIC_BYTES_V1_MAX):
                    store.append(call)
            if not killed:
                store.close()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0:
        raise RuntimeError(f"writing a store ended with {code}")


def contents(folder: Path) -> dict[str, Any]:
    """Return the contents of a store in the format of StorePeer.java, after its owner has opened and recovered it."""
    with MessageStore(folder, OPTIONS) as store:
        messages = list(store._log.scan(store._log.files.min_offset))
        queues: dict[str, list[int]] = defaultdict(list)
        keys: dict[str, list[int]] = defaultdict(list)
        for message in messages:
            kind = message.system_flag & TRANSACTION
            queue = queues[f"{message.topic} {message.queue_id}"]
            if kind not in (PREPARED, ROLLBACK):
                queue.append(message.offset)
            if kind != ROLLBACK:
                for key in _keys(message):
                    keys[f"{message.topic} {key}"].insert(0, message.offset)
        for name, offsets in queues.items():
            topic, queue_id = name.split()
            there = [message.offset for message in store.pull(topic, int(queue_id), 0, 10**6)]
            _same(there, offsets, f"the queue {name}")
        for name, offsets in keys.items():
            there = [message.offset for message in store.find(*name.split(" ", 1))]
            _same(there, offsets[:64], f"the key {name}")
        return {
            "max_offset": store.max_offset,
            "messages": [as_reported(message) for message in messages],
            "queues": dict(queues),
            "keys": {name: offsets[:64] for name, offsets in keys.items()},
        }


def _keys(message: StoredMessage) -> list[str]:
    properties = parse_properties(message.properties)
    keys = [properties.get(UNIQUE_KEY, ""), *properties.get(KEYS, "").split(" ")]
    return [key for key in keys if key]


def _same(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {str(found)[:2000]}\nand not: {str(expected)[:2000]}")


def _compare(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """The reports of the real store and of binlog about one store."""
    pairs = itertools.zip_longest(map(without_crc, theirs["messages"]), ours["messages"])
    for number, (there, here) in enumerate(pairs):
        _same(there, here, f"message {number}")
    for part in ("queues", "max_offset"):
        _same(theirs[part], ours[part], part)
    for name, offsets in ours["keys"].items():
        _same(theirs["keys"][name], sorted(offsets), f"the key {name}")


def exchange(peer: StorePeer, *, flush: Flush, record_crc: bool, killed: bool, old: bool) -> str:
    """Let binlog write a store, RocketMQ read it and append, then binlog, then RocketMQ again; return the reports.

    Raises: AssertionError if one side reads other messages, or finds other messages by queue or by key.
    """
    options = StoreOptions(
        file_bytes=OPTIONS.file_bytes, units_in_file=OPTIONS.units_in_file, key_index=OPTIONS.key_index,
        retention=NOTHING_REMOVED, flush=flush, record_crc=record_crc,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "store")
        write_ours(folder, options, killed=killed, old=old)
        # binlog reads a second copy, so that recovery of the first one is the real store's own work
        ours = contents(_copy(folder, Path(name, "copy")))
        keys = [tuple(name.split(" ", 1)) for name in ours["keys"]]
        # an old version takes the CRC for an ordinary property
        with_crc = int(record_crc and not old)
        settings = {"record_crc": with_crc, "verify": with_crc, "flush": "sync", "add": 1}
        theirs = peer.read(folder, keys, **settings)
        _compare(theirs, ours)
        if (folder / "abort").exists():
            raise AssertionError("the real store did not stop cleanly")
        with StoreReader(folder) as reader:
            added = reader.pull("orders", 0, len(ours["queues"]["orders 0"]), 2)[0]
        _same([message.body for message in added], [b"from the real store"], "what the real store appended")
        with MessageStore(folder, options) as store:
            store.append(Message.of("orders", b"from ours", keys=["k1"]))
        ours = contents(_copy(folder, Path(name, "copy again")))
        theirs = peer.read(folder, keys, **{**settings, "add": 0})
        _compare(theirs, ours)
        return f"{len(ours['messages'])} messages, {len(ours['queues'])} queues, {len(ours['keys'])} keys"


def _copy(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def locks(peer: StorePeer) -> str:
    """Check that each side refuses a store that the other has open; return the errors."""
    with tempfile.TemporaryDirectory() as name:
        folder, held = Path(name, "store"), Path(name, "held")
        write_ours(folder, OPTIONS, killed=False)
        thread = threading.Thread(target=peer.read, args=(folder, []), kwargs={"hold": held})
        thread.start()
        while not held.exists():
            if not thread.is_alive():
                raise AssertionError("the real store did not start")
            time.sleep(0.01)
        try:
            MessageStore(folder, OPTIONS).close()
        except BusyError as error:
            ours = str(error)
        else:
            raise AssertionError("ours opened a store that the real one has")
        finally:
            held.unlink()
            thread.join()
        with MessageStore(folder, OPTIONS):
            try:
                peer.read(folder, [])
            except RuntimeError as error:
                if "Lock failed" not in str(error):
                    raise
            else:
                raise AssertionError("the real store opened one that ours have")
        return f"binlog said {ours!r}; the real store, 'Lock failed,MQ already started'"
