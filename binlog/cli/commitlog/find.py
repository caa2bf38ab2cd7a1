"""`binlog commitlog find`: print messages by key, time, offset or id."""

from __future__ import annotations

import click

from binlog.cli.commitlog.messages import messages_bytes
from binlog.cli.commitlog.options import (
    JSON_TEXT,
    check_queue,
    key_slots_option,
    offset_type,
    queue_option,
    time_from,
    topic_option,
)
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write
from binlog.commitlog import StoredMessage, StoreReader, parse_message_id

_COUNT = 64


@click.command("find", short_help="Find messages by key, time, offset or id.")
@directory_argument
@topic_option("The topic of the messages; for --key and --time.")
@click.option("--key", metavar="K", help="Messages with this key, newest first.")
@click.option(
    "--time",
    "store_ms",
    metavar="TIME",
    callback=time_from,
    help="The first message of the queue stored then or later: 2025-01-31T12:00:00Z (UTC if it has no offset), or 5m, "
    "2h or 1d for that long ago.",
)
@queue_option("The queue; for --time.")
@click.option("--offset", type=offset_type(), metavar="N", help="The message at this offset of the commit log.")
@click.option("--id", "id_", metavar="MSGID", help="The message with this id: 32 or 56 hexadecimal digits.")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=_COUNT,
    show_default=True,
    metavar="N",
    help="At most N messages with a key.",
)
@key_slots_option
@json_option(JSON_TEXT)
def command(
    directory: str,
    topic: str | None,
    key: str | None,
    store_ms: int | None,
    queue_id: int | None,
    offset: int | None,
    id_: str | None,
    count: int,
    key_slots: int | None,
    as_json: bool,
) -> None:
    """Print the messages in DIR that have a key, or the message with a time, an offset or an id.

    Prints their bodies, one per line. Exits with 1 if there is no such message.
    """
    if [key, store_ms, offset, id_].count(None) != 3:
        raise click.UsageError("give exactly one of --key, --time, --offset and --id")
    if topic is None and (key is not None or store_ms is not None):
        raise click.UsageError("--key and --time need --topic")
    if (queue_id is None) != (store_ms is None):
        raise click.UsageError("--time and --queue need each other")
    with opening():
        host, offset = (None, offset) if id_ is None else parse_message_id(id_)
        reader = StoreReader(directory, key_slots=key_slots)
    with reader:
        if key is not None and topic is not None:
            found = reader.find(topic, key, count=count)
        elif store_ms is not None and topic is not None and queue_id is not None:
            found = _by_time(reader, topic, queue_id, store_ms)
        else:
            assert offset is not None
            found = [reader.read(offset)]
    found = [message for message in found if host in (None, message.store_host) and topic in (None, message.topic)]
    if not found:
        raise CommandError(f"{directory} has no such message", ExitCode.FAILED)
    write(messages_bytes(found, as_json=as_json))


def _by_time(reader: StoreReader, topic: str, queue_id: int, store_ms: int) -> list[StoredMessage]:
    check_queue(reader, topic, queue_id)
    found, _ = reader.pull(topic, queue_id, reader.find_by_time(topic, queue_id, store_ms), 1)
    # If all messages were stored before the time, this is the last one.
    return [message for message in found if message.store_ms >= store_ms]
