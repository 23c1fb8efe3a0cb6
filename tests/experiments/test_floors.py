"""Noise floors that a proposal names by their leaf."""

import dataclasses
import math
import re
from typing import Any

import pytest

from tests.registry.stories import noise_floor
from workbench.errors import ConflictError, NotFoundError
from workbench.experiments.floors import floor_of, noise_floors
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger

SUBJECT = "recipe:r@1"


def logged(ledger: Ledger, **changes: Any) -> str:
    floor = noise_floor().model_copy(update={"num_runs": 10} | changes)
    return ledger.append(floor, subject=SUBJECT).leaf


def test_floor_is_given_by_metric_with_its_number_of_runs(ledger: Ledger) -> None:
    leaf = logged(ledger, spreads={"bpb_macro": 0.01, "bpb_code": 0.02}, num_runs=12)
    logged(ledger, spreads={"bpb_macro": 0.5})
    floors = noise_floors(ledger, leaf)
    assert {metric: dataclasses.astuple(floor) for metric, floor in floors.items()} == {
        "bpb_macro": (0.01, 12),
        "bpb_code": (0.02, 12),
    }
    assert floor_of(ledger, leaf)[1].num_runs == 12


def test_floor_that_is_not_in_the_log_is_refused(ledger: Ledger) -> None:
    with pytest.raises(NotFoundError, match="no entry has it"):
        noise_floors(ledger, "0" * 64)
    note = ledger.append(Note(text="no floor"), subject="lab")
    with pytest.raises(NotFoundError, match=re.escape(f"entry {note.sequence} (note) is none")):
        noise_floors(ledger, note.leaf)


def test_floor_of_fewer_than_ten_runs_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ConflictError, match="is of 9 runs: calibrated_t takes 10 or more"):
        noise_floors(ledger, logged(ledger, num_runs=9))


@pytest.mark.parametrize("spread", [0.0, math.nan])
def test_metric_that_did_not_vary_is_absent(ledger: Ledger, spread: float) -> None:
    leaf = logged(ledger, spreads={"bpb_macro": 0.01, "bpb_docs": spread})
    assert set(noise_floors(ledger, leaf, metrics=["bpb_macro"])) == {"bpb_macro"}
    with pytest.raises(NotFoundError, match="has no spread of bpb_docs \\(it has bpb_macro\\)"):
        noise_floors(ledger, leaf, metrics=["bpb_macro", "bpb_docs"])
    nothing = logged(ledger, spreads={"bpb_docs": spread})
    with pytest.raises(NotFoundError, match="has no spread of any metric"):
        noise_floors(ledger, nothing)


def test_floor_that_was_redacted_is_refused(ledger: Ledger) -> None:
    leaf = logged(ledger)
    ledger.redact(floor_of(ledger, leaf)[0], what="other", reason="it was not ours to publish")
    with pytest.raises(ConflictError, match="is hidden here"):
        noise_floors(ledger, leaf)
