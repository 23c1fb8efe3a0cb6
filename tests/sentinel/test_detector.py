"""Each signature is found in the smallest log that shows it, and in no healthy one."""

import math
import pickle
import random
from collections.abc import Iterator

import pytest

from workbench.sentinel.detector import Detector, Finding
from workbench.sentinel.signatures import CATALOGUE
from workbench.sentinel.telemetry import TelemetryRow


def healthy(num_rows: int, seed: int = 0) -> list[dict[str, float | int | None]]:
    """A falling, noisy loss with a working router, 12 s a step."""
    noise = random.Random(seed)
    return [
        {
            "time": 12.0 * step,
            "step": step,
            "tokens": 2048 * step,
            "loss": 3 + 4 * math.exp(-step / 100) + noise.gauss(0, 0.03),
            "lr": 1e-3,
            "grad_norm": 0.5 + noise.random(),
            "clip_threshold": 1.0,
            "router_entropy": 0.97,
            "max_expert_share": 0.3,
            "capacity_utilization": 0.8,
            "aux_loss": 1.05,
            "step_seconds": 12 + noise.gauss(0, 0.1),
        }
        for step in range(1, num_rows + 1)
    ]


def found(rows: list[dict[str, float | int | None]], **settings: float) -> list[Finding]:
    chosen = {"num_experts": 8, "top_k": 2, "divergence_loss": 12.0, "patience": 3} | settings
    detector = Detector(**chosen)
    return [finding for row in rows for finding in detector.observe(TelemetryRow(**row))]


def changed(
    first: int, last: int, every: int = 1, num_rows: int = 400, **values: float | None
) -> list[dict[str, float | int | None]]:
    rows = healthy(num_rows)
    for step in range(first, last + 1, every):
        rows[step - 1].update(values)
    return rows


SCENARIOS = {
    "non_finite_loss": (changed(200, 200, loss=math.nan), 200, 200),
    "non_finite_gradient": (changed(200, 200, grad_norm=math.inf), 200, 200),
    "divergence": (changed(5, 9, loss=15.0), 5, 7),
    "loss_spike": (changed(200, 204, loss=5.5), 200, 201),
    "router_collapse": (changed(100, 400, max_expert_share=0.97), 100, 119),
    "balance_loss_disconnected": (changed(100, 400, aux_loss=0.0), 100, 109),
    "grad_norm_not_measured": (changed(1, 400, grad_norm=0.0), 1, 8),
    "silent_slow_down": (changed(300, 400, step_seconds=17.5), 300, 310),
    "periodic_stall": (changed(50, 400, every=10, step_seconds=60.0), 50, 80),
}


def test_scenarios_cover_the_whole_catalogue():
    assert set(SCENARIOS) == {signature.name for signature in CATALOGUE}


@pytest.mark.parametrize("name", SCENARIOS)
def test_observe_scenario_reports_its_signature_once(name):
    rows, began, detected = SCENARIOS[name]
    findings = found(rows)
    assert [finding.signature for finding in findings] == [name]
    assert (findings[0].began_step, findings[0].detected_step) == (began, detected)
    signature = next(entry for entry in CATALOGUE if entry.name == name)
    assert (findings[0].severity, findings[0].layer) == (signature.severity, signature.layer)
    assert findings[0].fix == signature.fix


@pytest.mark.parametrize("seed", range(3))
def test_observe_healthy_log_reports_nothing(seed):
    assert found(healthy(3_000, seed)) == []


def test_observe_same_signature_after_recovery_is_reported_again():
    rows = changed(200, 204, loss=5.5)
    for step in range(300, 303):
        rows[step - 1]["loss"] = 5.5
    assert [finding.began_step for finding in found(rows)] == [200, 300]


@pytest.mark.parametrize("jump", [5.5, 30.0])
def test_observe_hard_batch_is_no_instability(jump):
    """A single row far off that is back on trend at the next row."""
    rows = healthy(400)
    for step in (150, 153, 260, 262):
        rows[step - 1]["loss"] = jump
    assert found(rows, divergence_loss=50.0) == []


def test_observe_missing_values_are_neither_divergence_nor_recovery():
    rows = healthy(400)
    for row in rows:
        if row["step"] % 3:
            row.update({name: None for name in row if name not in ("time", "step", "tokens")})
    assert found(rows) == []
    broken = changed(200, 400, aux_loss=0.1)
    broken[204]["aux_loss"] = None
    assert found(broken)[0].detected_step == 210


def test_observe_infinite_loss_counts_as_divergence_too():
    findings = found(changed(200, 210, loss=math.inf))
    assert [finding.signature for finding in findings] == ["non_finite_loss", "divergence"]
    assert "inf" in findings[0].symptom


def test_observe_soft_collapse_shows_in_the_entropy_alone():
    rows = changed(100, 400, router_entropy=0.3, max_expert_share=None)
    assert [finding.signature for finding in found(rows)] == ["router_collapse"]


@pytest.mark.parametrize(("num_experts", "top_k"), [(8, 8), (1, 1)])
def test_observe_model_without_choice_has_no_collapse(num_experts, top_k):
    rows = changed(1, 400, max_expert_share=1.0, router_entropy=1.0)
    assert found(rows, num_experts=num_experts, top_k=top_k) == []


def test_observe_short_steps_on_a_busy_machine_stay_quiet():
    """30 ms steps that double for a while cost seconds, not an incident."""
    rows = healthy(600)
    for row in rows:
        row["step_seconds"] = 0.06 if 300 < row["step"] < 500 else 0.03
    assert found(rows) == []


def test_observe_slow_down_that_ends_and_comes_back_is_reported_twice():
    rows = changed(300, 380, num_rows=700, step_seconds=17.0)
    for step in range(500, 600):
        rows[step - 1]["step_seconds"] = 17.0
    assert [finding.began_step for finding in found(rows)] == [300, 500]


def test_expect_new_level_another_mixture_is_no_spike():
    rows = changed(200, 400, loss=5.5)
    detector = Detector(num_experts=8, divergence_loss=12.0, patience=3)
    findings = []
    for row in rows:
        if row["step"] == 200:
            detector.expect_new_level()
        findings += detector.observe(TelemetryRow(**row))
    assert findings == []


def test_detector_long_run_keeps_constant_memory():
    def size_after(num_rows: int) -> int:
        detector = Detector(num_experts=8, divergence_loss=12.0, patience=3)
        for row in endless(num_rows):
            detector.observe(row)
        return len(pickle.dumps(detector))

    assert size_after(6_000) <= 1.05 * size_after(600)


def endless(num_rows: int) -> Iterator[TelemetryRow]:
    for step in range(1, num_rows + 1):
        seconds = 60.0 if step % 10 == 0 else 12.0
        yield TelemetryRow(
            time=0.0, step=10**6 + step, tokens=0, loss=3 + step % 7 / 100, step_seconds=seconds
        )


def test_catalogue_every_entry_is_complete():
    names = [signature.name for signature in CATALOGUE]
    assert len(set(names)) == len(names)
    for signature in CATALOGUE:
        assert signature.causes
        assert signature.rows >= 1
        assert "{" not in signature.rule
        assert signature.rule != ""
