"""Every version of the form stays readable, and each is held to its own keys."""

from pathlib import Path
from typing import Any

import pytest

from workbench.canonical import freeze
from workbench.errors import InvalidFileError
from workbench.registry.frontmatter import front_matter, parse_proposal
from workbench.registry.proposal import Proposal
from workbench.registry.proposal_versions import (
    NEWEST,
    VERSIONS,
    Newer,
    unknown_to,
    upgraded,
    version_of,
)

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "experiments" / "0001-does-a-mixture-chosen-by-proxies-beat" / "proposal.md"
CONTINGENCY = "contingencies: [{when: it spikes, then: go back, max_uses: 1}]"


def text_v1(**changes: str) -> str:
    """Return this repository's first proposal, which was registered as version 1."""
    text = FIRST.read_text("utf-8")
    for old, new in {"contingencies: []": CONTINGENCY, **changes}.items():
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_first_version_is_read_as_the_newest() -> None:
    proposal = parse_proposal(text_v1(), "proposal.md")
    assert proposal.proposal == NEWEST
    assert [plan.phase for plan in proposal.contingencies] == ["any"]
    assert proposal.decision.noise is None
    assert proposal.decision.underpowered is False
    assert proposal.embargo is None


def test_values_frozen_under_the_first_version_are_read_as_its_text_is() -> None:
    """What the ledger keeps of an old registration, floats as decimal strings, is the same."""
    text = text_v1()
    frozen = freeze(front_matter(text, "proposal.md")[0].value)
    assert frozen["proposal"] == "v1"
    assert Proposal.model_validate(frozen, strict=False) == parse_proposal(text, "proposal.md")


def test_first_version_without_contingencies_has_none() -> None:
    value = front_matter(FIRST.read_text("utf-8"), "proposal.md")[0].value
    del value["contingencies"]
    assert Proposal.model_validate(value).contingencies == ()


def test_newest_version_survives_the_ledger() -> None:
    text = text_v1(**{
        "proposal: v1": "proposal: v2\nembargo: {until: 2030-01-31, reason: review}",
        CONTINGENCY: "contingencies: [{phase: decay, when: a, then: b, max_uses: 2}]",
        "  alpha: 0.05": "  alpha: 0.05\n  noise: {sd: 0.01, source: 0001}\n  underpowered: true",
        "    step_rule": f"    evaluation_set_hash: 'sha256:{'0' * 64}'\n    step_rule",
    })  # fmt: skip
    text = text.replace("source: 0001", "source: the first")
    proposal = parse_proposal(text, "proposal.md")
    frozen = freeze(proposal.model_dump(mode="json"))
    assert Proposal.model_validate(frozen, strict=False) == proposal
    assert proposal.contingencies[0].phase == "decay"
    assert proposal.embargo is not None
    assert proposal.embargo.until == "2030-01-31"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("  alpha: 0.05", "  alpha: 0.05\n  underpowered: true", "decision.underpowered"),
        ("  alpha: 0.05", "  alpha: 0.05\n  noise: {sd: 0.1, source: x}", "decision.noise"),
        ("    step_rule", "    evaluation_set_hash: ''\n    step_rule", "evaluation_set_hash"),
        ("exclusions: []", "exclusions: []\nembargo: {until: 2030-01-01, reason: x}", "embargo"),
        ("[{when", "[{phase: any, when", "contingencies[0].phase"),
    ],
)
def test_first_version_refuses_a_later_key_at_its_line(old: str, new: str, name: str) -> None:
    text = text_v1(**{old: new})
    with pytest.raises(InvalidFileError) as refused:
        parse_proposal(text, "proposal.md")
    (fault,) = refused.value.faults
    assert name in fault.message
    assert "is new in v2, and this proposal says v1" in fault.message
    assert "write proposal: v2" in fault.remedy
    line = int(fault.where.partition(":")[2])
    assert name.rpartition(".")[2].partition("[")[0] in text.split("\n")[line - 1]


def test_newest_version_wants_the_phase_of_a_contingency() -> None:
    with pytest.raises(InvalidFileError, match=r"contingencies\[0\]\.phase is missing"):
        parse_proposal(text_v1(**{"proposal: v1": "proposal: v2"}), "proposal.md")


@pytest.mark.parametrize("said", ["v3", "v0", "'1'"])
def test_unknown_version_is_told_once_with_the_known_ones(said: str) -> None:
    text = text_v1(**{"proposal: v1": f"proposal: {said}", CONTINGENCY: "contingencies: []"})
    with pytest.raises(InvalidFileError) as refused:
        parse_proposal(text, "proposal.md")
    (fault,) = refused.value.faults
    assert "is not a version that this workbench reads (v1 and v2)" in fault.message


@pytest.mark.parametrize("value", [None, [], "text", {}, {"proposal": "v9"}, {"proposal": ["v1"]}])
def test_what_is_no_proposal_of_a_known_version_stays_as_it_is(value: Any) -> None:
    assert upgraded(value) == value
    assert version_of(value) == NEWEST


def test_every_new_key_of_a_version_is_one_of_the_newest_form() -> None:
    """A place that leads nowhere would let a later key pass in an older version's file."""
    for version in VERSIONS.values():
        for place in (*version.new, *version.narrower_before):
            model: Any = Proposal
            for step in (part for part in place if part != "*"):
                field = model.model_fields[step]
                model = next(iter(_models(field.annotation)), None)
    assert list(unknown_to(NEWEST, {"embargo": 1})) == []
    assert list(unknown_to("v1", {"contingencies": [{}, {"phase": "any"}]})) == [
        Newer(path=("contingencies", 1, "phase"), text=None, since="v2")
    ]


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (("design", "pairing"), "none", "seed_index"),
        (("decision", "interval"), "welch_t", "paired_t"),
        (("decision", "stopping"), "fixed(5)", "group(3,5,8)"),
        (("decision", "multiplicity"), "none", "holm"),
    ],
)
def test_text_that_an_older_version_does_not_allow_is_found(
    place: tuple[str, str], old: str, new: str
) -> None:
    section, key = place
    assert list(unknown_to("v1", {section: {key: old}})) == []
    assert list(unknown_to("v1", {section: {key: new}})) == [
        Newer(path=place, text=new, since="v2")
    ]
    assert list(unknown_to("v2", {section: {key: new}})) == []


def _models(annotation: Any) -> list[Any]:
    found = [annotation] if hasattr(annotation, "model_fields") else []
    return found + [m for part in getattr(annotation, "__args__", ()) for m in _models(part)]
