"""`binlog commitlog stat`: print the statistics of a store."""

from __future__ import annotations

import dataclasses
import os

import click

from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.commitlog.options import key_slots_option
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.records import object_line
from binlog.commitlog import StoreStat, stat_store

_FILES = ("FILE", "SIZE", "ON DISK", "FIRST STORED")
_QUEUES = ("TOPIC", "QUEUE", "MESSAGES", "FIRST", "NEXT", "AT", "LAST AT", "FIRST STORED", "LAST STORED", "ON DISK")
_KEY_INDEX = ("KEY INDEX", "KEYS", "AT", "LAST AT", "FIRST STORED", "LAST STORED", "ON DISK")


@click.command("stat", short_help="Show files, topics, queues, and the owner.")
@directory_argument
@key_slots_option
@json_option('Print one JSON object: path, offsets, owner, checkpoint, and "files", "queues" and "key_index".')
def command(directory: str, key_slots: int | None, as_json: bool) -> None:
    """Show the files of the commit log, the queues of each topic, and the key index of the store in DIR.

    FIRST and NEXT are the queue offsets of a queue's first message and of its next one. AT and LAST AT are where the
    queue's first and last messages are in the commit log. ON DISK is the disk space of files, preallocated space
    included. '-' means unknown or none.
    """
    with opening():
        store = stat_store(directory, key_slots=key_slots)
    if as_json:
        write_line(object_line(_as_object(store)))
        return
    end = "" if store.readable_end is None else str(store.readable_end)
    counts = f"{things_text(store.message_count, 'message')}, on disk {size_text(store.disk_bytes)}"
    write_line(f"{printable(store.path)}: commit log {store.first_offset}..{end}, {counts}")
    write_line(f"{_state_text(store)}; {_checkpoint_text(store)}")
    if store.files:
        write_table(
            _FILES,
            [
                (
                    os.path.basename(file.path),
                    size_text(file.file_bytes),
                    size_text(file.disk_bytes),
                    _time_text(file.first_store_ms),
                )
                for file in store.files
            ],
        )
    if store.queues:
        write_table(
            _QUEUES,
            [
                (
                    queue.topic,
                    str(queue.queue_id),
                    count_text(queue.message_count),
                    str(queue.first_index),
                    str(queue.next_index),
                    _offset_text(queue.first_offset),
                    _offset_text(queue.last_offset),
                    _time_text(queue.first_store_ms),
                    _time_text(queue.last_store_ms),
                    size_text(queue.disk_bytes),
                )
                for queue in store.queues
            ],
            left=("TOPIC",),
            droppable=("AT", "LAST AT", "FIRST STORED", "ON DISK", "LAST STORED"),
        )
    if store.key_index:
        write_table(
            _KEY_INDEX,
            [
                (
                    os.path.basename(file.path),
                    count_text(file.key_count),
                    str(file.begin_offset),
                    str(file.end_offset),
                    _time_text(file.begin_ms),
                    _time_text(file.end_ms),
                    size_text(file.disk_bytes),
                )
                for file in store.key_index
            ],
        )


def _state_text(store: StoreStat) -> str:
    if store.owned:
        return f"open in {store.owner or 'another process'}"
    return "stopped cleanly" if store.clean else "not stopped cleanly: the next opening recovers it"


def _checkpoint_text(store: StoreStat) -> str:
    checkpoint = store.checkpoint
    if checkpoint is None:
        return "no checkpoint"
    times = (checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    log, queues, index = (_time_text(time or None) for time in times)
    return f"synced up to: log {log}, queues {queues}, key index {index}"


def _as_object(store: StoreStat) -> dict[str, object]:
    """Return the store as --json prints it."""
    queues = [{**dataclasses.asdict(queue), "message_count": queue.message_count} for queue in store.queues]
    sums = {"message_count": store.message_count, "disk_bytes": store.disk_bytes}
    return {**dataclasses.asdict(store), **sums, "queues": queues}


def _offset_text(offset: int | None) -> str:
    return "-" if offset is None else str(offset)


def _time_text(time_ms: int | None) -> str:
    return time_text(None if time_ms is None else time_ms * 10**6)
