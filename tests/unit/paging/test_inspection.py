from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlog.errors import NotFoundError
from binlog.paging import inspection
from binlog.paging.addresses import AddressFolder
from binlog.paging.inspection import check_paging, read_pages, stat_paging
from binlog.paging.page import Page
from tests.support.journals import flip
from tests.support.paging import (
    ADDRESS,
    copy_after_crash,
    numbered_messages,
    page_all,
    page_files,
    page_messages,
    paging,
)

MESSAGES = numbered_messages(30)


def _make_folder(path: Path) -> Path:
    """Create a folder with messages in three pages, and acknowledge the first ones."""
    with paging(path) as (opened, store):
        store.start_paging()
        cursor = opened.manager.cursor(ADDRESS)
        page_all(store, MESSAGES[:20])
        with opened.manager.begin() as transaction:
            for message in MESSAGES[20:]:
                store.page(message, transaction)
        cursor.ack(1 << 32, 3)
    return path


def _state(path: Path) -> dict[str, tuple[bytes, int]]:
    """Return the contents and modification times of all files."""
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def test_a_valid_folder_has_no_problems_and_is_unchanged(tmp_path: Path) -> None:
    path = _make_folder(tmp_path / "paging")
    before = _state(path)
    found = stat_paging(path)
    assert found.problems == []
    (address,) = found.addresses
    assert (address.address, address.layout) == (ADDRESS, "native")
    assert [page.page_id for page in address.pages] == [1, 2, 3]
    assert sum(page.message_count for page in address.pages) == 30
    assert [page.acked_count for page in address.pages] == [3, 0, 0]
    assert sum(sum(page.tx_counts.values()) for page in address.pages) == 10
    assert [message for _, _, message, _ in read_pages(path, ADDRESS)] == MESSAGES
    assert _state(path) == before
    with pytest.raises(NotFoundError):
        stat_paging(tmp_path / "nowhere")
    with pytest.raises(NotFoundError):
        list(read_pages(path, "nobody"))


def test_a_folder_in_use_or_after_a_crash_has_no_problems(tmp_path: Path) -> None:
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        page_all(store, MESSAGES)
        opened.manager.drain()
        assert check_paging(tmp_path / "paging") == []
        (last,) = page_files(copy_after_crash(tmp_path / "paging"))[-1:]
        os.truncate(last, last.stat().st_size - 7)
        assert check_paging(last.parents[1]) == []


def test_changes_during_an_inspection_are_not_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes are made between reading the messages and the acknowledgements, in either order."""
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        page_all(store, MESSAGES[:3])
        cursor = opened.manager.cursor(ADDRESS)
        left = list(MESSAGES[3:6])
        read_acks, found = inspection._read_acks, Page.open_existing

        def put_and_acknowledge() -> None:
            if left:
                cursor.ack(store.append(left.pop()) or 0)

        def read_meanwhile(folder: AddressFolder, page_id: int) -> bytes:
            put_and_acknowledge()
            return read_acks(folder, page_id)

        def find_meanwhile(folder: AddressFolder, page_id: int) -> Page:
            put_and_acknowledge()
            return found(folder, page_id)

        put_and_acknowledge()
        monkeypatch.setattr(inspection, "_read_acks", read_meanwhile)
        monkeypatch.setattr(Page, "open_existing", find_meanwhile)
        look = stat_paging(tmp_path)
        assert left == []
        assert look.problems == []
        (page,) = look.addresses[0].pages
        assert page.acked_count < page.message_count


@pytest.mark.slow
def test_every_changed_byte_of_a_page_is_reported(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        store.page(b"message")
        store.page(b"another")
    (file,) = page_files(tmp_path)
    for offset in range(file.stat().st_size):
        flip(file, offset)
        assert [problem.path for problem in check_paging(tmp_path)] == [str(file)], offset
        flip(file, offset)
    assert check_paging(tmp_path) == []


def test_every_kind_of_damage_is_reported(tmp_path: Path) -> None:
    path = _make_folder(tmp_path / "paging")
    folder = page_files(path)[0].parent
    acks = folder / "000000001.acks"
    flip(acks, 3)
    assert _rules(path) == ["acks_header"]
    flip(acks, 3)
    acks.write_bytes(acks.read_bytes() + b"x" * 24)
    assert _rules(path) == ["ack_record"]
    os.truncate(acks, 56)
    (folder / "000000009.invalidPage").write_bytes(b"something")
    assert _rules(path) == ["quarantine"]
    (folder / "000000009.invalidPage").unlink()
    os.rename(folder / "000000002.page", folder / "000000005.page")
    assert _rules(path) == ["page_id"]
    os.rename(folder / "000000005.page", folder / "000000002.page")
    address = (folder / "address.txt").read_bytes()
    for content, rule in ((b"", "address"), (b"b" + address[1:], "address_crc"), (b"\xff\n", "address")):
        (folder / "address.txt").write_bytes(content)
        assert _rules(path) == [rule]
    (folder / "address.txt").unlink()
    assert _rules(path) == ["unreadable"]


def _rules(path: Path) -> list[str]:
    return [problem.rule for problem in check_paging(path)]


def test_a_foreign_folder_is_ignored(tmp_path: Path) -> None:
    path = _make_folder(tmp_path / "paging")
    folder = page_files(path)[0].parent
    (folder / "address.txt").write_bytes(b"")
    with paging(path) as (opened, store):
        assert len(opened.manager.problems) == 1
        assert store.folder.path != str(folder)
        assert len(page_files(folder)) == 3
        store.start_paging()
        store.page(b"in a folder of its own")
        assert [page_messages(page) for page in store.pages] == [[b"in a folder of its own"]]
