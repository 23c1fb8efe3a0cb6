import math

import pytest

from workbench.reports.quantities import (
    count,
    decimals_for,
    device_time,
    duration,
    even,
    number,
    percent,
    plain,
    scaled,
    signed,
    significant,
    stamp,
)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (number(1.5), "1.5000"),
        (number(-0.00001), "0.0000"),
        (number(-2.5, 1), "−2.5"),
        (number(None), "—"),
        (signed(0.25, 2), "+0.25"),
        (signed(-0.25, 2), "−0.25"),
        (signed(0.0, 2), "0.00"),
        (significant(0.00001234, 3), "1.23\u202f×\u202f10⁻⁵"),
        (significant(123456.0), "123500"),
        (significant(0.02), "0.02"),
        (even(0.19), "0.190"),
        (even(512.0), "512"),
        (count(12345), "12\u202f345"),
        (count(1, "entry", "entries"), "1\u00a0entry"),
        (count(2, "entry", "entries"), "2\u00a0entries"),
        (scaled(1_310_000), "1.31\u202fM"),
        (scaled(20_000, "B"), "20\u202fkB"),
        (scaled(999_900), "1\u202fM"),
        (scaled(12, "tokens"), "12\u202ftokens"),
        (duration(0.0123), "12.3\u202fms"),
        (duration(94.8), "94.8\u202fs"),
        (duration(600), "10.0\u202fmin"),
        (duration(7200), "2.00\u202fh"),
        (duration(0), "0\u202fs"),
        (device_time(3.1), "3.10\u202fs of device time"),
        (device_time(1800), "0.5\u00a0device-hours"),
        (percent(0.123), "12.3\u202f%"),
        (plain({"code": "0.25", "docs": "0.75"}), "code\u00a00.25, docs\u00a00.75"),
        (plain(True), "yes"),
        (plain("natural"), "natural"),
        (stamp("2026-03-02T08:00:08.000Z"), "2\u00a0March\u00a02026, 08:00:08\u00a0UTC"),
    ],
)
def test_quantity_is_written_as_a_reader_expects(written: str, wanted: str) -> None:
    assert written == wanted


@pytest.mark.parametrize("write", [number, signed, significant, even, scaled, duration])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_value_keeps_its_mark(write, value: float) -> None:
    """B2, B10: a NaN or an infinity is shown as such, never as a number."""
    assert write(value).startswith("non-finite(")


def test_bound_that_decides_is_not_rounded_to_zero() -> None:
    places = decimals_for([0.031, 0.00004, 0.06])
    assert number(0.00004, places) != number(0.0, places)


@pytest.mark.parametrize("seconds", [0.9994, 0.9996, 59.96, 119.96, 3599.9])
def test_duration_never_needs_a_fourth_digit(seconds: float) -> None:
    digits = [c for c in duration(seconds).split("\u202f")[0] if c.isdigit()]
    assert len(digits) <= 4
