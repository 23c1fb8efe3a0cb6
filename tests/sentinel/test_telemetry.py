"""Telemetry lines: twelve fields, six decimals, non-finite marked, missing absent."""

import json
import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import IntegrityError
from workbench.sentinel.telemetry import FIELDS, TelemetryRow, from_line, read_rows, to_line

ROW = TelemetryRow(
    time=1_767_225_600.25,
    step=7,
    tokens=14_336,
    loss=5.123456789,
    lr=2.5e-7,
    grad_norm=0.0,
    clip_threshold=1.0,
    router_entropy=0.987654321,
    max_expert_share=0.31,
    capacity_utilization=0.8,
    aux_loss=1.02,
    step_seconds=0.031,
)


def test_to_line_full_row_has_the_twelve_fields_with_six_decimals():
    assert len(FIELDS) == 12
    assert to_line(ROW) == (
        '{"time":1767225600.250000,"step":7,"tokens":14336,"loss":5.123457,"lr":2.500000e-07,'
        '"grad_norm":0.000000,"clip_threshold":1.000000,"router_entropy":0.987654,'
        '"max_expert_share":0.310000,"capacity_utilization":0.800000,"aux_loss":1.020000,'
        '"step_seconds":0.031000}\n'
    )


def test_to_line_non_finite_values_are_marked_and_read_back():
    """B2: an infinity stays one; B10: every line is strict JSON."""
    row = TelemetryRow(
        time=1.0, step=1, tokens=1, loss=math.nan, grad_norm=math.inf, aux_loss=-math.inf
    )
    line = to_line(row)
    strict = json.loads(line, parse_constant=pytest.fail)
    assert (strict["loss"], strict["grad_norm"], strict["aux_loss"]) == ("nan", "+inf", "-inf")
    back = from_line(line)
    assert math.isnan(back.loss or 0)
    assert (back.grad_norm, back.aux_loss) == (math.inf, -math.inf)


def test_to_line_unmeasured_fields_are_absent_and_read_back_as_none():
    line = to_line(TelemetryRow(time=1.0, step=1, tokens=1, loss=0.0))
    assert line == '{"time":1.000000,"step":1,"tokens":1,"loss":0.000000}\n'
    assert from_line(line).grad_norm is None
    assert from_line(line).loss == 0.0


def test_to_line_just_under_a_thousandth_is_stable():
    line = to_line(TelemetryRow(time=1.0, step=1, tokens=1, lr=0.00099999999))
    assert line.endswith('"lr":0.001000}\n')
    assert to_line(from_line(line)) == line


NUMBERS = st.one_of(st.none(), st.floats())


@given(st.builds(TelemetryRow, time=st.floats(0, 4e9), **dict.fromkeys(FIELDS[3:], NUMBERS)))
def test_from_line_any_row_keeps_six_decimals_and_kind(row):
    back = from_line(to_line(row))
    for field in fields(TelemetryRow):
        was, found = getattr(row, field.name), getattr(back, field.name)
        if was is None or isinstance(was, int):
            assert found == was
        elif math.isnan(was):
            assert math.isnan(found)
        else:
            assert found == pytest.approx(was, rel=1e-6, abs=5e-7)
    assert to_line(back) == to_line(row)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        '{"time":1.0,"step":1}',
        '{"time":1.0,"step":1.5,"tokens":1}',
        '{"time":1.0,"step":true,"tokens":1}',
        '{"time":1.0,"step":"nan","tokens":1}',
        '{"time":1.0,"step":1,"tokens":1,"loss":null}',
        '{"time":1.0,"step":1,"tokens":1,"loss":"inf"}',
        '{"time":1.0,"step":1,"tokens":1,"loss":NaN}',
        '{"time":1.0,"step":1,"tokens":1,"losss":1.0}',
        '{"time":1.0,"step":1,"tokens":1,"step":2}',
        '{"time":1.0,"st',
    ],
)
def test_from_line_malformed_is_refused(line):
    with pytest.raises(ValueError, match=r".+"):
        from_line(line)


def test_read_rows_torn_tail_is_left_out(tmp_path):
    path = tmp_path / "telemetry.jsonl"
    path.write_text(to_line(ROW) + to_line(ROW)[:-9])
    assert [row.step for row in read_rows(path)] == [7]


def test_read_rows_damage_inside_names_file_and_line(tmp_path):
    path = tmp_path / "telemetry.jsonl"
    path.write_text(to_line(ROW) + '{"time":\n' + to_line(ROW))
    with pytest.raises(IntegrityError, match=r"telemetry\.jsonl:2"):
        list(read_rows(path))


@pytest.mark.parametrize("spare", [0, 1, 20])
def test_read_rows_of_the_end_of_a_file_are_whole_rows(tmp_path, spare):
    path = tmp_path / "telemetry.jsonl"
    lines = [to_line(replace(ROW, step=step)) for step in range(1, 6)]
    path.write_text("".join(lines))
    found = read_rows(path, last_bytes=len("".join(lines[3:])) + spare)
    assert [row.step for row in found] == [4, 5]
    assert len(list(read_rows(path, last_bytes=10**6))) == 5
