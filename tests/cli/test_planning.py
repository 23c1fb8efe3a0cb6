"""``workbench power`` and ``check`` of every rule as they are read: within 80 columns."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.labs import SUBJECT, LabFolder

SEQUENTIAL = {"stopping": "group(3,5,8)"}
ANYTIME = {"stopping": "anytime", "interval": "paired_t", "pairing": "seed_index"}


def unregistered(lab: LabFolder, seeds: int, **rule: str) -> LabFolder:
    """Copy the experiment to a second one, which is not registered, with another rule."""
    first = lab.root / "experiments" / SUBJECT
    second = lab.root / "experiments" / "0002-again"
    second.mkdir()
    for name in ("proposal.md", "full.yaml"):
        text = (first / name).read_text("utf-8").replace(f"{SUBJECT}@1", "0002-again@1")
        for key, value in {**rule, "seeds": str(seeds)}.items():
            text = re.sub(rf"\n  {key}: .*", f"\n  {key}: {value}", text)
        (second / name).write_text(text, "utf-8")
    return lab


def narrow(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("seeds", "rule"), [(8, SEQUENTIAL), (30, ANYTIME), (3, {})])
def test_power_is_told_within_80_columns(
    workbench: Command, registered_lab: LabFolder, seeds: int, rule: dict[str, str]
) -> None:
    lab = unregistered(registered_lab, seeds, **rule)
    said = workbench("power", "2", "--sd", "0.01", lab=lab)
    assert (said.code, said.err) == (0, "")
    assert narrow(said.out), said.out
    text = " ".join(said.out.split())
    assert "0002-again, as the files are now" in text
    assert "Noise between seeds (standard deviation) 0.01, assumed: --sd." in text
    assert "no difference" in text
    assert "the minimum effect" in text
    assert "normal noise, the same in both arms" in text
    assert ("stops at" in text) == bool(rule)
    assert ("Simulated: 20,000" in text) == bool(rule)


def test_power_of_many_looks_tells_the_late_ones_together(
    workbench: Command, registered_lab: LabFolder
) -> None:
    said = workbench("power", "2", "--sd", "1", lab=unregistered(registered_lab, 30, **ANYTIME))
    assert "stops at 14 to 30" in said.out
    assert "No 100 seeds an arm have power 0.8" in said.out


def test_power_is_given_to_another_program(workbench: Command, registered_lab: LabFolder) -> None:
    said = workbench("power", "1", "--sd", "0.01", "--json", lab=registered_lab)
    found = json.loads(said.out)
    assert found["basis"] == "in_force"
    (claim,) = found["claims"]
    assert claim["noise"] == {"sd": 0.01, "origin": "assumed", "source": "--sd", "freedom": None}
    assert claim["plans"][0]["stopping"] == claim["stopping"]
    assert set(claim["scenarios"][0]["chances"]) == {"supported", "refuted", "inconclusive"}


@pytest.mark.parametrize("sd", ["0", "-1", "nan", "inf"])
def test_power_with_no_standard_deviation_is_a_usage_error(
    workbench: Command, registered_lab: LabFolder, sd: str
) -> None:
    said = workbench("power", "1", "--sd", sd, lab=registered_lab)
    assert said.code == 2
    assert "standard deviation" in said.err


def test_power_without_noise_names_the_commands_that_help(
    workbench: Command, registered_lab: LabFolder
) -> None:
    said = workbench("power", "1", lab=registered_lab)
    assert said.code == 9
    assert "workbench power 0001 --sd 0.01" in said.err


@pytest.mark.parametrize(("seeds", "rule"), [(8, SEQUENTIAL), (30, ANYTIME)])
def test_check_tells_a_sequential_rule_within_80_columns(
    workbench: Command, registered_lab: LabFolder, seeds: int, rule: dict[str, str]
) -> None:
    lab = unregistered(registered_lab, seeds, **rule)
    file = lab.root / "experiments" / "0002-again" / "proposal.md"
    stated_noise(file)
    said = workbench("check", "2", lab=lab)
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "(simulated, 20,000 experiments)" in text
    assert "Seeds an arm on average:" in text
    assert narrow(said.out[said.out.index("superior") :]), said.out


def test_check_tells_every_claim_of_a_family(workbench: Command, registered_lab: LabFolder) -> None:
    lab = unregistered(registered_lab, 8, **SEQUENTIAL)
    file = lab.root / "experiments" / "0002-again" / "proposal.md"
    stated_noise(file)
    text = file.read_text("utf-8")
    start = text.index("  - id: H1")
    first = text[start : text.index("\ndesign:")].rstrip() + "\n"
    first = "\n".join(line for line in first.split("\n") if not line.strip().startswith("#"))
    text = text.replace("  - id: H1", first.replace("id: H1", "id: H2") + "  - id: H1", 1)
    member = "{hypothesis: H2, metric: bpb_code, direction: minimize, claim: superior(0.01)}"
    text = re.sub(r"\n  multiplicity: .*", f"\n  multiplicity: holm\n  family: [{member}]", text)
    file.write_text(text, "utf-8")
    told = " ".join(workbench("check", "2", lab=lab).out.split())
    assert "at its share 0.025 of alpha, the first step of Holm" in told
    assert "H2: superior(0.01) on bpb_code" in told
    assert "a noise floor gives all of them" in told
    power = workbench("power", "2", lab=lab)
    assert narrow(power.out)
    assert "One of 2 claims" in power.out
    assert "Noise between seeds unknown: no chances." in power.out


def stated_noise(file: Path) -> None:
    text = file.read_text("utf-8")
    noise = "\n  alpha: 0.05\n  noise: {sd: 0.001, source: a pilot}"
    assert "\n  alpha: 0.05" in text
    file.write_text(text.replace("\n  alpha: 0.05", noise, 1), "utf-8")
