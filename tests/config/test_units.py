from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import read_size, read_span
from dirtybus.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("90s", 90.0),
        ("5m", 300.0),
        ("300ms", 0.3),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d", 172_800.0),
        (" 5 m ", 300.0),
        ("1d2h3m4s5ms", 93_784.005),
    ],
)
def test_a_span_means_its_seconds(text: str, seconds: float) -> None:
    assert read_span(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "-5s", "5 parsecs", "5M", "30m1h", "5m5m", "m", "1e3", "inf", "nan", "٣s", "1..5s"]
)
def test_a_text_that_is_no_span_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a span of time; write seconds, or text such as '90s'"):
        read_span(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_span_written_in_units_reads_as_the_same_milliseconds(total_ms: int) -> None:
    rest, ms = divmod(total_ms, 1000)
    rest, seconds = divmod(rest, 60)
    rest, minutes = divmod(rest, 60)
    days, hours = divmod(rest, 24)
    assert read_span(f"{days}d{hours}h{minutes}m{seconds}s{ms}ms") == total_ms / 1000


@given(st.text(max_size=12))
def test_any_text_is_a_span_or_a_config_error(text: str) -> None:
    try:
        count = read_span(text)
    except ConfigError:
        return
    assert count >= 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("10B", 10),
        ("1kB", 1000),
        ("512MB", 512_000_000),
        ("64MiB", 64 * 2**20),
        ("64mib", 64 * 2**20),
        ("2GB", 2_000_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("1TiB", 2**40),
    ],
)
def test_a_size_means_its_bytes(text: str, count: int) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("text", ["", "64M", "MB", "-1MB", "64 megabytes", "1ib", "0x10"])
def test_a_text_that_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a size; write bytes, or text such as '512MB'"):
        read_size(text)


@pytest.mark.parametrize("text", ["0.5", "1.0001kB", "0.3KiB"])
def test_a_part_of_a_byte_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a whole number of bytes"):
        read_size(text)


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["", "k", "M", "G", "T"]), st.booleans())
def test_a_size_written_with_a_unit_reads_as_the_same_bytes(count: int, prefix: str, binary: bool) -> None:
    power = ["", "k", "M", "G", "T"].index(prefix)
    unit = f"{prefix}iB" if binary and prefix else f"{prefix}B"
    assert read_size(f"{count}{unit}") == count * (1024 if binary else 1000) ** power


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_a_config_error(text: str) -> None:
    try:
        count = read_size(text)
    except ConfigError:
        return
    assert count >= 0
