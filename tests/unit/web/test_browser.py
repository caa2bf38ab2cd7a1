"""The page in Chromium: records, filters, groups, and text that tries to be more than text."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import binlog
from binlog.consumers import ConsumerGroup, Retry, read_dead_letters, stat_group
from tests.support.browsers import BACKSPACE, ENTER, ESCAPE, Browser, browser
from tests.support.checkout import ROOT
from tests.support.web_pages import GROUP, Page, fill_log, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("web-browser")]

MARKUP = (
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "</textarea></title></pre></script><h1 id=owned>big</h1>",
    "<svg onload=\"document.title = 'owned'\"></svg>",
    "<a href=\"javascript:document.title='owned'\">here</a>",
    "{{7*7}} ${document.title} &lt;b&gt; <!-- ",
)
ODD = {
    "left \u202e right": "left \\u{202e} right",
    "\x1b[31mred\x07\x00": "\\x1b[31mred\\x07\\x00",
    "a\nb\tc": "a\\nb\\tc",
}
TEXTS = "#rows li.record .text"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def page(window: Browser, tmp_path: Path) -> Iterator[Page]:
    """A page that the browser has open."""
    fill_log(tmp_path / "log")
    with running(tmp_path / "log") as found:
        window.resize(1280, 800)
        window.driver.get(found.url)
        window.until(lambda: len(window.texts(TEXTS)) == 40)
        yield found
        assert window.violations() == []
        window.driver.get("about:blank")


def _append(log: Path, *records: str) -> None:
    with binlog.Writer(log) as writer:
        writer.append_many([record.encode() for record in records])


def test_the_token_is_not_in_the_address_and_no_script_can_read_it(window: Browser, page: Page) -> None:
    assert window.driver.current_url == f"http://127.0.0.1:{page.port}/"
    assert window.run("return document.cookie") == ""
    assert page.token not in window.driver.page_source


def test_records_come_as_they_are_appended_and_can_be_paused(window: Browser, page: Page) -> None:
    _append(page.log, "new one")
    window.until(lambda: window.texts(TEXTS)[-1] == "new one")
    window.find("#pause").click()
    _append(page.log, "new two", "new three")
    window.until(lambda: window.texts("#status") == ["paused, 2 new"])
    assert window.texts(TEXTS)[-1] == "new one"
    window.find("#pause").click()
    assert window.texts(TEXTS)[-2:] == ["new two", "new three"]
    window.until(lambda: window.texts("#record-count") == ["43"])


def test_filters_choose_the_records(window: Browser, page: Page) -> None:
    window.find("[name=level]").send_keys("error")
    window.until(lambda: set(window.texts("#rows .level")) == {"ERROR", "CRITICAL"})
    window.find("[name=field]").send_keys("order=3")
    window.until(lambda: window.texts(TEXTS) and all(" order=3 " in text for text in window.texts(TEXTS)))
    _append(page.log, '{"severity":17,"level":"ERROR","attributes":{"order":3},"body":"wanted"}', '{"body":"other"}')
    window.until(lambda: window.texts(TEXTS)[-1] == "wanted order=3")
    window.find("[name=field]").send_keys(BACKSPACE * 8, "order")
    window.until(lambda: window.texts("#note") == ["not NAME=VALUE: 'order'"])


def test_markup_stays_text(window: Browser, page: Page) -> None:
    event = {
        "level": MARKUP[0],
        "logger": MARKUP[1],
        "body": MARKUP[2],
        "severity": 17,
        "attributes": {MARKUP[3]: MARKUP[4]},
    }
    _append(page.log, *MARKUP, *ODD, json.dumps(event), "end")
    (page.log / f"{MARKUP[1].replace('/', '')}.position").write_text("1:256\n")
    window.until(lambda: window.texts(TEXTS)[-1] == "end")
    shown = window.texts(TEXTS)
    assert shown[40:46] == list(MARKUP)
    assert shown[46:49] == list(ODD.values())
    assert shown[49] == f"{MARKUP[2]} {MARKUP[3]}={MARKUP[4]}"
    assert window.texts("#rows .level")[49] == MARKUP[0]
    for index in (40, 41, 42, 49):
        window.all("#rows li.record")[index].click()
        window.until(
            lambda index=index: MARKUP[2 if index == 49 else index - 40][:12] in "".join(window.texts("#record-text"))
        )
        window.find("#record .close").click()
    window.until(lambda: "onerror" in "".join(window.texts("#followers td")))
    assert "owned" not in window.driver.title
    assert window.all("#owned, #rows script, #rows img, #rows svg, #rows a, pre *, #followers img") == []


def test_a_record_is_opened_with_the_keyboard(window: Browser, page: Page) -> None:
    window.all("#rows li.record")[0].send_keys(ENTER)
    window.until(lambda: window.texts("#record-text") == ["sesame first"])
    assert window.texts("#record-fields dd")[0] == "0"
    window.find("#record").send_keys(ESCAPE)
    window.until(lambda: not window.all("#record[open]"))


def test_a_dead_letter_is_retried_after_a_click(window: Browser, page: Page) -> None:
    window.find("#groups button").click()
    window.until(lambda: window.texts("#letters td:first-child") == ["2", "1"])
    window.all("#letters tr")[1].find_element("css selector", "td:last-child button").click()
    window.until(lambda: window.texts("#group-said") == ["Delivering 1 message again."])
    with ConsumerGroup(page.log, GROUP) as group:
        delivered = [item.sequence for item in iter(lambda: group.get(timeout=0), None)]
    assert 1 in delivered
    assert 2 not in delivered


def test_dead_letters_are_removed_after_a_question(window: Browser, page: Page) -> None:
    window.find("#groups button").click()
    window.find("#drop").click()
    window.find("#question button[value='']").click()
    window.until(lambda: not window.all("#question[open]"))
    assert len(list(read_dead_letters(page.log, GROUP))) == 2
    window.find("#drop").click()
    assert "Remove 2 dead letters" in window.find("#question-text").text
    window.find("#question-yes").click()
    window.until(lambda: window.texts("#group-said") == ["Removed 2 dead letters."])
    assert list(read_dead_letters(page.log, GROUP)) == []


def test_a_group_is_reset_after_a_question(window: Browser, page: Page) -> None:
    window.find("#groups button").click()
    window.find("#reset").click()
    window.find("#reset-to").send_keys("tomorrow")
    window.find("#question-yes").click()
    window.until(lambda: "start is a ref" in window.texts("#group-said")[0])
    window.find("#reset").click()
    window.find("#reset-to").send_keys("30")
    window.find("#question-yes").click()
    window.until(lambda: window.texts("#group-said") == ["The group continues with message 30."])
    assert stat_group(page.log, GROUP).next == 30
    window.until(lambda: window.texts("#groups td.number")[0] == "10")


def test_several_logs_are_chosen_from_and_read_only_has_no_buttons(window: Browser, tmp_path: Path) -> None:
    for name in ("first", "second"):
        fill_log(tmp_path / name)
    with running(tmp_path / "first", tmp_path / "second", options=["--read-only"]) as page:
        window.resize(390, 800)
        window.driver.get(page.url)
        window.until(lambda: len(window.texts(TEXTS)) == 40)
        window.find("#log").send_keys(str(tmp_path / "second"))
        window.until(lambda: window.texts("#path") == [str(tmp_path / "second")])
        with binlog.Writer(tmp_path / "second") as writer:
            writer.append(b"of the second")
        window.until(lambda: window.texts(TEXTS)[-1] == "of the second")
        window.find("#groups button").click()
        window.until(lambda: len(window.all("#letters tr")) == 2)
        assert [each.text for each in window.all("#group button") if each.is_displayed()] == ["2", "1", "Close"]
        assert window.run("return document.documentElement.scrollWidth") <= 390
        assert window.violations() == []
        window.driver.get("about:blank")


def test_the_page_says_that_the_server_ended(window: Browser, tmp_path: Path) -> None:
    fill_log(tmp_path / "log")
    with running(tmp_path / "log") as page:
        window.driver.get(page.url)
        window.until(lambda: window.texts("#status") == ["live"])
    window.until(lambda: "connection lost" in window.texts("#status")[0])
    window.driver.get("about:blank")


@pytest.mark.turn(2)
def test_pictures_of_the_page(window: Browser, tmp_path: Path) -> None:
    """With BINLOG_PICTURES=1, write those of docs/watching.md; without it, check that the page fits."""
    is_wanted = bool(os.environ.get("BINLOG_PICTURES"))
    folder = ROOT / "docs" / "pictures" if is_wanted else tmp_path
    folder.mkdir(exist_ok=True)
    _append(tmp_path / "orders", *map(_order, range(400)))
    (tmp_path / "orders" / "audit.position").write_text("1:256\n")
    (tmp_path / "orders" / "report.position").write_text(f"{binlog.stat(tmp_path / 'orders').tail}\n")
    with (
        ConsumerGroup(tmp_path / "orders", "billing", retry=Retry(deliveries_max=1)) as billing,
        ConsumerGroup(tmp_path / "orders", "shipping") as shipping,
        running(Path("orders"), folder=tmp_path) as page,
    ):
        for item in itertools.islice(iter(lambda: billing.get(timeout=0), None), 100):
            if item.sequence in (3, 41):
                item.reject(error="card declined")
            else:
                item.ack()
        assert shipping.get(timeout=30) is not None
        window.driver.get(page.url)
        window.until(lambda: len(window.texts(TEXTS)) == 200)
        for second in range(30 if is_wanted else 1):
            before = window.run("return document.querySelector('#history path').getAttribute('d')")
            numbers = range(400 + 90 * second, 400 + 90 * second + 40 + 17 * second % 60)
            _append(tmp_path / "orders", *map(_order, numbers))
            window.until(
                lambda b=before: window.run("return document.querySelector('#history path').getAttribute('d')") != b
            )
        for name, size, scheme in [
            ("web-light", (1280, 800), "light"),
            ("web-dark", (1280, 800), "dark"),
            ("web-phone", (390, 800), "light"),
        ]:
            window.resize(*size, scheme)
            assert window.run("return document.documentElement.scrollWidth") <= size[0]
            window.save(folder / f"{name}.png")
        window.resize(1280, 800)
        window.find("#groups button").click()
        window.until(lambda: len(window.all("#letters tr")) == 2)
        window.save(folder / "web-group.png")
        window.driver.get("about:blank")


def _order(number: int) -> str:
    """Return an event of a shop."""
    severity, level = (
        (9, "INFO"),
        (9, "INFO"),
        (9, "INFO"),
        (5, "DEBUG"),
        (13, "WARNING"),
        (9, "INFO"),
        (17, "ERROR"),
    )[number % 7]
    said = {5: "cache miss", 9: "order accepted", 13: "payment took 2.1 s", 17: "payment failed: timed out"}[severity]
    event = {
        "time": datetime.now(UTC).isoformat(),
        "severity": severity,
        "level": level,
        "logger": ("shop.web", "shop.payment", "shop.stock")[number % 3],
        "body": said,
        "attributes": {"order": 1000 + number, "customer": f"c{number % 17}"},
    }
    return json.dumps(event)
