"""Numbers that nothing could run are refused before they are frozen."""

from pathlib import Path

import pytest

from workbench.experiments.checking import check
from workbench.layout import Layout
from workbench.scaffold.lab import DEFAULT_RECIPE

HUGE = 10**30
CASES = [
    ("proposal.md", "patience: 5", f"patience: {HUGE}", "divergence.patience"),
    ("proposal.md", "startup_trials: 4", f"startup_trials: {HUGE}", "startup_trials"),
    ("proposal.md", "warmup_evaluations: 1", f"warmup_evaluations: {HUGE}", "warmup_evaluations"),
    ("proposal.md", "budget_cap_device_hours: 4.0", "budget_cap_device_hours: 1.0e+300", "cap_dev"),
    ("proposal.md", "stopping: fixed(3)", f"stopping: fixed({HUGE})", "more seeds"),
    ("proposal.md", "stopping: fixed(3)", f"stopping: fixed({'9' * 5000})", "more seeds"),
    ("recipe", "sequences: 8", f"sequences: {HUGE}", "base.batch.sequences"),
    ("recipe", "num_layers: 2", f"num_layers: {HUGE}", "base.model.num_layers"),
    ("recipe", "train_bytes: ", f"train_bytes: {HUGE} #", "train_bytes"),
    ("recipe", "max_bytes: ", f"max_bytes: {HUGE} #", "max_bytes"),
    ("full.yaml", "  steps: ", f"  steps: {HUGE} #", "override steps"),
]  # fmt: skip


def edited(layout: Layout, folder: Path, file: str, old: str, new: str) -> None:
    path = layout.root / DEFAULT_RECIPE if file == "recipe" else folder / file
    text = path.read_text("utf-8")
    assert old in text, text
    path.write_text(text.replace(old, new, 1), "utf-8")


def faults(layout: Layout) -> list[str]:
    return [str(fault) for fault in check(layout, "1").faults]


@pytest.mark.parametrize(("file", "old", "new", "named"), CASES)
def test_check_refuses_a_number_beyond_what_can_be(
    layout: Layout, folder: Path, file: str, old: str, new: str, named: str
) -> None:
    assert faults(layout) == []
    edited(layout, folder, file, old, new)
    found = [fault for fault in faults(layout) if named in fault and "more" in fault]
    assert len(found) == 1, faults(layout)


def test_check_refuses_runs_that_no_device_can_do_in_the_registered_time(
    layout: Layout, folder: Path
) -> None:
    """The verdict could only be void: that is known before anything runs."""
    edited(layout, folder, "proposal.md", "budget_device_hours: 1.0", "budget_device_hours: 1.0e-9")
    edited(layout, folder, "proposal.md", "cap_device_hours: 4.0", "cap_device_hours: 2.0e-9")
    (first, second) = faults(layout)
    assert "promotion.budget_device_hours 1e-09 cannot hold 6 runs at full scale" in first
    assert "budget_cap_device_hours 2e-09 cannot hold the runs at full scale and the re-" in second
    assert "at 1e+16 FLOP/s, which no device reaches" in second


def test_check_refuses_a_model_of_more_parameters_than_any(layout: Layout, folder: Path) -> None:
    edited(layout, folder, "full.yaml", "  steps: ", "  model.d_expert: 9000000\n  steps: ")
    for key in ("model.num_experts: 900000", "model.num_layers: 90000 #"):
        name = key.partition(":")[0]
        text = (folder / "full.yaml").read_text("utf-8")
        old = f"  {name}: " if f"  {name}: " in text else "  steps: "
        new = f"  {key}" if old != "  steps: " else f"  {key}\n  steps: "
        edited(layout, folder, "full.yaml", old, new)
    text = (folder / "proposal.md").read_text("utf-8")
    rule = "    - key: steps\n"
    assert rule in text
    added = "".join(
        f"    - key: {key}\n      rule: registered\n      why: as a test\n"
        for key in ("model.d_expert", "model.num_experts")
    )
    (folder / "proposal.md").write_text(text.replace(rule, added + rule), "utf-8")
    assert any("parameters, more than 1e+15" in fault for fault in faults(layout)), faults(layout)
