"""The text formats of metrics are what Prometheus's own parsers read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from binlog.metrics import Exposition, Family, Kind, expose

_LABEL_NAMES = st.sampled_from(["log", "group", "state", "follower"])
# Every character that a path or a group's name may have, and those that the formats escape.
_TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\\n,{}= #'), max_size=12)
_VALUES = st.integers(0, 2**63) | st.floats(0, 1e18)
_SAMPLES = st.dictionaries(_TEXTS, _VALUES, max_size=4)


@st.composite
def _families(draw: st.DrawFn) -> list[Family]:
    families = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(Kind), max_size=3))):
        unit = draw(st.sampled_from(["", "bytes", "seconds"]))
        label = draw(_LABEL_NAMES)
        family = Family(f"binlog_{number}{unit and '_' + unit}", kind, draw(_TEXTS), unit)
        for text, value in draw(_SAMPLES).items():
            family.add(value, **{label: text})
        families.append(family)
    return families


def _wanted(families: list[Family]) -> list[tuple[str, dict[str, str], float]]:
    return [(family.sample_name, dict(labels), float(value)) for family in families for labels, value in family.samples]


@given(_families())
@pytest.mark.slow
def test_a_parser_finds_every_sample_again(families: list[Family]) -> None:
    for exposition, parse in (
        (Exposition.OPENMETRICS, parse_openmetrics),
        (Exposition.PROMETHEUS, parse_prometheus),
    ):
        found = list(parse(expose(families, exposition)))
        samples = [(sample.name, dict(sample.labels), float(sample.value)) for each in found for sample in each.samples]
        assert samples == _wanted(families)
        assert all(sample.timestamp is None for each in found for sample in each.samples)
        assert [each.type for each in found] == [family.kind.value for family in families if family.samples]


def test_a_value_that_is_not_known_has_no_sample() -> None:
    family = Family("binlog_things", Kind.GAUGE, "Things.")
    family.add(None, log="a")
    assert expose([family]) == "# EOF\n"
    family.add(3, log="b")
    assert expose([family]).splitlines()[-2:] == ['binlog_things{log="b"} 3', "# EOF"]


def test_a_time_keeps_its_digits() -> None:
    family = Family("binlog_time_seconds", Kind.GAUGE, "When.", "seconds")
    family.add(1_795_824_989.0555265)
    [found] = parse_openmetrics(expose([family]))
    assert math.isclose(found.samples[0].value, 1_795_824_989.0555265, rel_tol=0, abs_tol=1e-6)


def test_a_name_that_is_not_utf8_is_escaped() -> None:
    family = Family("binlog_things", Kind.GAUGE, "Things.")
    family.add(1, log="b\udcffyte")
    [found] = parse_openmetrics(expose([family]))
    assert found.samples[0].labels == {"log": "b\\udcffyte"}
