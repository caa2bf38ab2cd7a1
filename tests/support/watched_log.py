"""A log that has all that can be watched: several files, followers, consumer groups and a seal."""

from __future__ import annotations

from pathlib import Path

import binlog
from binlog.consumers import ConsumerGroup, Retry
from binlog.seal import Sealer, SigningKey, begin_seal, parse_anchor


def make_watched_log(path: Path) -> list[binlog.Ref]:
    """Make the log, with 30 records in three files, and return the refs of the records.

    The first file is archived.  The follower `reader` has read 10 records, and the position of `gone` is not in the
    log.  The group `mail` is done with 2 messages, one is a dead letter, and one is delayed.  25 records are sealed.
    """
    key = SigningKey.generate("example.org/watched")
    anchor = path.with_name("anchor")
    anchor.mkdir()
    with binlog.Writer(path) as writer:
        begin_seal(path, key)
        refs = []
        for number in range(30):
            refs.append(writer.append(b"record %d" % number))
            if number in (9, 19):
                writer.cutover()
            if number == 24:
                with Sealer(path, key, anchors=[parse_anchor(f"dir:{anchor}")]) as sealer:
                    sealer.seal()
                    assert list(sealer.anchor().values()) == [None]
    binlog.archive(path, keep_last=1)
    (path / "reader.position").write_text(f"{refs[10]}\n")
    (path / "gone.position").write_text("9:256\n")
    with ConsumerGroup(path, "mail", retry=Retry(deliveries_max=2)) as group:
        for number in range(4):
            item = group.get(timeout=5)
            assert item is not None
            if number < 2:
                item.ack()
            elif number == 2:
                item.reject("unknown address")
            else:
                item.nack(delay=3600)
    return refs
