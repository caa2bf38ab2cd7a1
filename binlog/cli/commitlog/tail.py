"""`binlog commitlog tail`: the last messages of a topic, and those that come."""

from __future__ import annotations

import click

from binlog.cli.commitlog.messages import messages_bytes
from binlog.cli.commitlog.options import JSON_TEXT, check_queue, queue_option, topic_option
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import raise_without_reader, write
from binlog.commitlog import StoreReader, TopicReader

_COUNT = 10

# How often a follower that waits looks whether anybody still reads what it prints.
_LOOK_SECONDS = 1.0


@click.command("tail", short_help="Print a topic's last messages, and follow.")
@directory_argument
@topic_option("The topic whose messages to print.", required=True)
@queue_option("Only those of this queue; otherwise of all, those that come later too.")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    default=_COUNT,
    show_default=True,
    metavar="COUNT",
    help="So many messages.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended, until Ctrl-C.")
@json_option(JSON_TEXT)
def command(directory: str, topic: str, queue_id: int | None, count: int, follow: bool, as_json: bool) -> None:
    """Print the last messages of a topic in DIR, and with -f those that are appended, a line each.

    They come in the order of the commit log, and with -f each as soon as readers may see it; a topic that is not there
    yet is waited for.
    """
    with opening():
        reader = StoreReader(directory)
    with reader:
        with opening():
            if not follow:
                check_queue(reader, topic, queue_id)
            messages = TopicReader(reader, topic, queue_id)
            messages.start_at_last(count)
        _print_all(messages, as_json)
        while follow:
            raise_without_reader()
            messages.wait(_LOOK_SECONDS)
            _print_all(messages, as_json)


def _print_all(messages: TopicReader, as_json: bool) -> None:
    """Print what is there."""
    while batch := messages.read_batch():
        write(messages_bytes(batch, as_json=as_json))
