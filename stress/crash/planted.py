"""The mistakes that the harness must find: a harness that cannot find them proves nothing about what it does not find.

A mistake is planted by a switch of the preloaded recorder, which leaves calls out or reorders them (see
recorder/mistakes.c), or by a patch in planted/, applied to a copy of the sources, which is
compiled anew where the C changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "planted"
_COPIED = ("binlog", "native", "stress", "setup.py", "pyproject.toml", "README.md", "LICENSE")


@dataclass(frozen=True)
class Planted:
    """A mistake.

    name: of the switch, or of the patch (planted/NAME.patch).  what: what is done wrong.
    part: the part that finds it.
    """

    name: str
    what: str
    part: str = "power"

    @property
    def patch(self) -> Path | None:
        """The patch that plants it, where it is not a switch."""
        path = PATCHES / f"{self.name}.patch"
        return path if path.exists() else None


PLANTED = {
    planted.name: planted
    for planted in (
        Planted("no-data-sync", "fdatasync of a file does nothing"),
        Planted("no-directory-sync", "fsync of a directory does nothing"),
        Planted("no-parent-sync", "the directory above a new log's is not synced"),
        Planted("no-sync-of-new-files", "a file gets its name before its header is synced"),
        Planted("sync-before-write", "each write comes after the sync that was to cover it"),
        Planted("tail-before-data", "the tail is written, and then the records"),
        Planted("name-not-synced", "a new file's name is not synced before the file is used"),
        Planted("group-crc-not-checked", "recovery rolls a commit forward without a look at its bytes"),
        Planted("pending-discarded", "a commit whose tail was not published is dropped, not rolled forward"),
        Planted("slot-not-written", "a group is synced and published, and its commit slot never written"),
        Planted("drafts-record-not-synced", "an ingest is decided by a record whose bytes are not synced"),
        Planted("drafts-hidden-names-not-synced", "an ingest is decided before the names of its files are synced"),
        Planted("drafts-record-name-not-synced", "a draft is a file of the log before the record's name is synced"),
        Planted("drafts-names-not-synced", "a file is closed before the name of the draft after it is synced"),
        Planted("drafts-header-not-synced", "a draft gets its name before its header is synced"),
        Planted("lock-not-taken-again", "a deputy leads without the lock that it waited for", part="kill"),
        Planted("stale-tail", "a header is trusted from before another writer came and died", part="kill"),
        Planted("staged-forgotten", "what a dead leader had taken is not staged again", part="kill"),
        Planted("staged-twice", "what a dead leader had committed is staged again", part="kill"),
        Planted("drafts-placed-twice", "a draft that has its number gets another one after a death", part="kill"),
        Planted("drafts-rest-forgotten", "after a death the drafts without a number stay without one", part="kill"),
        Planted("sync-tried-again", "a sync that failed is made again, and then says that all is well", part="faults"),
        Planted("poison-not-written", "a failed sync is told to nobody but the one who made it", part="faults"),
        Planted("sealed-offsets-used-again", "a file is cut after a failed sync, and gone on with", part="faults"),
        Planted("store-answered-before-flush", "with sync flush an append returns before the flush", "store-power"),
        Planted("store-marker-removed-first", "the marker of a crash goes before all is flushed", "store-power"),
        Planted("store-name-not-synced", "a new file's name is not synced", "store-power"),
        Planted("store-part-of-crc-believed", "a message that lacks a part of its CRC counts as one", "store-power"),
        Planted("store-buffers-forgotten", "nobody looks for what a dead process had in its buffers", "store-kill"),
        Planted("store-end-not-erased", "what lies behind the end stays when a store is recovered", "store-kill"),
        Planted("store-offset-not-compared", "a message counts wherever it says that it lies", "store-kill"),
        Planted("store-found-bytes-believed", "what a failed sync left is not written anew", "store-faults"),
        Planted("store-sync-tried-again", "a sync that failed is made again, and does nothing", "store-faults"),
        Planted("journal-answered-before-sync", "what was appended counts as durable before its sync", "journal-power"),
        Planted("journal-name-not-synced", "a new file's name is not synced before the file is used", "journal-power"),
        Planted(
            "journal-control-not-synced", "a control file has its name before its bytes are synced", "journal-power"
        ),
        Planted("journal-compacted-not-synced", "what a compaction wrote is not synced", "journal-power"),
        Planted(
            "journal-counts-not-compared", "a commit's counts are not compared with what is there", "journal-power"
        ),
        Planted(
            "journal-freed-at-once", "files are freed before it is on the disk that they are dead", "journal-power"
        ),
        Planted("journal-header-not-renewed", "a freed file's new header is not synced", "journal-power"),
        Planted("journal-file-id-used-twice", "two files have the same id", "journal-kill"),
        Planted("journal-no-zeros-behind", "no zeros are written behind the last record", "journal-kill"),
        Planted("journal-deletes-freed-first", "a file goes that has deletes of another one's records", "journal-kill"),
        Planted("journal-left-not-rolled-back", "a load does not roll back what nobody ended", "journal-kill"),
        Planted("journal-moved-before-control", "files are renamed before a control file says so", "journal-kill"),
        Planted("journal-sync-tried-again", "a sync that failed is made again, and does nothing", "journal-faults"),
        Planted("journal-found-bytes-believed", "what a failed sync left is not written anew", "journal-faults"),
        Planted("journal-full-disk-for-ever", "nothing is appended once no file could be made", "journal-faults"),
        Planted("paging-commit-not-synced", "a transaction is committed before its pages are synced", "paging-power"),
        Planted("paging-name-not-synced", "a page is synced, and its name is not", "paging-power"),
        Planted("paging-settled-forgotten", "that a page's transactions were committed is not read", "paging-power"),
        Planted("paging-last-ack-forgotten", "the last acknowledgement in a file does not count", "paging-kill"),
        Planted("paging-acks-removed-first", "acknowledgements go before the page that they are of", "paging-kill"),
        Planted("paging-sync-tried-again", "a sync that failed is made again, and does nothing", "paging-faults"),
        Planted("depage-page-removed-first", "a page goes before it is committed that it was depaged", "depage-power"),
        Planted("depage-failed-commit-counts", "a page goes whose depaging could not be committed", "depage-faults"),
        Planted("depage-page-not-put-back", "a page whose depaging failed is forgotten", "depage-faults"),
        Planted("depage-last-page-forgotten", "nobody looks which page was depaged last", "paging-kill"),
        Planted("pagestore-header-first", "the log begins anew before the pages are written", "pagestore-power"),
        Planted("pagestore-pages-not-synced", "the pages are not synced at a checkpoint", "pagestore-power"),
        Planted("pagestore-pins-ignored", "pages are written before their records", "pagestore-power"),
        Planted("pagestore-answered-before-sync", "the log is never synced by commits", "pagestore-power"),
        Planted("pagestore-backup-name-not-synced", "an unfinished backup may look like no store", "pagestore-power"),
        Planted("pagestore-map-in-place", "the next map is written over the present one", "pagestore-kill"),
        Planted("pagestore-freed-forgotten", "what the log says is free stays in use", "pagestore-kill"),
        Planted("pagestore-sync-tried-again", "a sync that failed is made again, and does nothing", "pagestore-faults"),
        Planted("pagestore-found-bytes-believed", "pages are made of a log that is not synced", "pagestore-faults"),
        Planted("pagestore-full-disk-for-ever", "nothing is done once a checkpoint had no space", "pagestore-faults"),
        Planted("tail-not-compared", "a tail is believed without a look at our own copy of it", part="damage"),
    )
}


class PlantingError(Exception):
    """A patch does not apply, or what it gives does not compile."""


def plant(planted: Planted, folder: Path) -> Path:
    """The root of a source tree with the mistake in it: this one for a switch, else a patched copy."""
    if planted.patch is None:
        return ROOT
    tree = folder / "planted"
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    apply_patch(planted.patch, tree)
    if "native/" in planted.patch.read_text():
        _run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], tree, dict(os.environ))
    return tree


def apply_patch(patch: Path, tree: Path, *, write: bool = True) -> None:
    """Plant a patch in a source tree, or only see whether that could be done.  Raises: PlantingError.

    A patch is what `git diff` prints of files that are changed.  The lines that a hunk takes away, with those around
    them, are found wherever they are now: at the place nearest to the one that the hunk names.
    """
    text = patch.read_text()
    for name, hunks in re.findall(r"^--- a/.*\n\+\+\+ b/(.*)\n((?:[@ +-].*\n)+)", text, re.MULTILINE):
        path = tree / name
        lines = path.read_text().splitlines(keepends=True)
        for number, body in re.findall(r"^@@ -(\d+).*\n((?:[ +-].*\n)+)", hunks, re.MULTILINE):
            changed = body.splitlines(keepends=True)
            old = [line[1:] for line in changed if line[0] != "+"]
            places = [at for at in range(len(lines)) if lines[at : at + len(old)] == old]
            if not places:
                raise PlantingError(f"{patch.name}: {name} has no such lines (any more):\n{''.join(old)}")
            place = min(places, key=lambda at: abs(at + 1 - int(number)))
            lines[place : place + len(old)] = [line[1:] for line in changed if line[0] != "-"]
        if write:
            path.write_text("".join(lines))


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PlantingError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
