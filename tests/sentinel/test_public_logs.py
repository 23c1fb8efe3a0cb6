"""Verdicts on real public training logs; the values expected are those of their source note."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.sentinel.detector import Detector, Finding
from workbench.sentinel.telemetry import TelemetryRow


def number(text: str) -> float | None:
    """In these files "nan" means not logged."""
    return None if text in ("", "nan") else float(text)


def megatron(path: Path) -> Iterator[TelemetryRow]:
    with path.open() as file:
        for line in csv.DictReader(file):
            yield TelemetryRow(
                time=0.0,
                step=int(line["step"]),
                tokens=0,
                loss=number(line["lm_loss"]),
                step_seconds=number(line["iteration_time"]),
            )


def nanogpt(path: Path) -> Iterator[TelemetryRow]:
    before = None
    with path.open() as file:
        for line in csv.DictReader(file):
            now = float(line["cumulative_train_time_ms"]) / 1000
            yield TelemetryRow(
                time=now,
                step=int(line["step"]),
                tokens=0,
                loss=number(line["train_loss"]),
                step_seconds=None if before is None else now - before,
            )
            before = now


def chronicle(path: Path, section: str) -> Iterator[TelemetryRow]:
    with path.open() as file:
        for line in csv.DictReader(file):
            if section in line["section"]:
                yield TelemetryRow(
                    time=0.0,
                    step=int(line["iteration"]),
                    tokens=0,
                    loss=number(line["lm_loss"]),
                    grad_norm=number(line["grad_norm"]),
                )


def found(rows: Iterator[TelemetryRow], divergence_loss: float = 20.0) -> list[Finding]:
    detector = Detector(num_experts=8, divergence_loss=divergence_loss, patience=10)
    return [finding for row in rows for finding in detector.observe(row)]


def short(findings: list[Finding]) -> list[tuple[str, int, int]]:
    return [(f.signature, f.began_step, f.detected_step) for f in findings]


@pytest.fixture
def logs(shared_data: Path) -> Path:
    return shared_data / "training-logs"


def test_mixtral_8x7b_spike_is_found_and_isolated_stalls_are_not(logs):
    findings = found(megatron(logs / "megatron-mixtral-8x7b-a100.csv"))
    assert short(findings) == [("loss_spike", 4050, 4055)]


def test_mixtral_8x22b_rows_not_logged_are_no_divergence(logs):
    assert found(megatron(logs / "megatron-mixtral-8x22b-a100.csv")) == []


def test_deepseek_v3_proxy_slow_down_is_found_where_it_began(logs):
    findings = found(megatron(logs / "megatron-deepseekv3-proxy.csv"))
    assert [(f.signature, f.began_step) for f in findings] == [("silent_slow_down", 29_950)]
    assert findings[0].detected_step < 30_100


def test_nanogpt_muon_hard_batches_are_no_instability(logs):
    assert found(nanogpt(logs / "modded-nanogpt-muon-eb5659d0.csv")) == []


def test_nanogpt_soap_preconditioner_is_periodic_and_no_slow_down(logs):
    findings = found(nanogpt(logs / "modded-nanogpt-soap-5bdc3988.csv"))
    assert [finding.signature for finding in findings] == ["periodic_stall"]
    assert "every 10 steps" in findings[0].symptom


def test_bigscience_13b_gradient_norm_of_zero_is_not_measured(logs):
    path = logs / "bigscience-chronicle-lines.csv"
    findings = found(chronicle(path, "A huge lm loss spike"))
    assert ("grad_norm_not_measured", 29_020, 29_090) in short(findings)


def test_bloom_spike_after_a_quiet_stretch_is_found(logs):
    def quiet_then_spike() -> Iterator[TelemetryRow]:
        # The chronicle quotes only two rows before the spike; the stretch before it was flat.
        for step in range(31_164, 31_214):
            loss = 2.2 + (step % 5 - 2) / 100
            yield TelemetryRow(time=0.0, step=step, tokens=0, loss=loss)
        yield from chronicle(logs / "bigscience-chronicle-lines.csv", "First lm loss spike")

    assert short(found(quiet_then_spike())) == [("loss_spike", 31_219, 31_220)]
