"""Proposals as files: what is accepted, and how each refusal reads."""

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from workbench.errors import Fault, InvalidFileError
from workbench.registry.frontmatter import parse_proposal, proposal_hints
from workbench.registry.proposal import PLACEHOLDER, Proposal
from workbench.scaffold.forms import blank_form, proposal_text

ANSWERS = {
    "kind: other": "kind: balance",
    "foreknowledge: FILL IN": "foreknowledge: none",
    "minimum_effect: FILL IN": "minimum_effect: 0.01",
    "superior(FILL IN)": "superior(0.01)",
    "expected_improvement: FILL IN": "expected_improvement: 0.02",
}


@pytest.fixture
def answered() -> str:
    text = proposal_text(blank_form())
    for old, new in ANSWERS.items():
        assert old in text
        text = text.replace(old, new)
    return re.sub(rf">-\n( *){PLACEHOLDER}", r">-\n\1An answer: with a colon.", text)


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(InvalidFileError) as refused:
        parse_proposal(text, "proposal.md")
    return refused.value.faults


def line_of(text: str, fragment: str) -> int:
    return text[: text.index(fragment)].count("\n") + 1


def test_parse_proposal_answered_form_is_accepted(answered: str) -> None:
    proposal = parse_proposal(answered, "proposal.md")
    assert proposal.decision.margin == 0.01
    assert proposal.hypotheses[0].statement == "An answer: with a colon."
    assert proposal.design.scales == ("s1", "s2")


def test_parse_proposal_windows_line_ends_are_accepted(answered: str) -> None:
    assert parse_proposal(answered.replace("\n", "\r\n"), "proposal.md").design.seeds == 3


def test_parse_proposal_blank_form_names_every_open_answer() -> None:
    text = proposal_text(blank_form())
    faults = faults_of(text)
    assert len(faults) == text.count(PLACEHOLDER) - 1  # the heading explains the word
    assert all("is still to be filled in" in fault.message for fault in faults)
    assert all(fault.remedy for fault in faults)
    lines = [int(fault.where.rpartition(":")[2]) for fault in faults]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("old", "new", "at", "message", "remedy"),
    [
        ("owner:", "ownr:", "ownr:", "unknown key 'ownr'", "did you mean 'owner'?"),
        ("  seeds: 3", "  sedes: 3", "  sedes", "unknown key 'design.sedes'", "did you mean 'seed"),
        (
            "  seeds: 3\n",
            "",
            "design:",
            "design.seeds is missing",
            "add 'seeds:' under design (Full-scale runs an arm",
        ),
        (
            "  seeds: 3",
            "  seeds: three",
            "  seeds",
            "design.seeds must be a whole number, not 'three'",
            "Full-scale runs",
        ),
        ("  seeds: 3", "  seeds: 0", "  seeds", "design.seeds must be at least 1, not 0", ""),
        ("  seeds: 3", "  seeds:", "  seeds", "design.seeds is empty", ""),
        (
            "    name: tpe",
            "    name: grid",
            "    name: grid",
            "sweep.sampler.name must be one of 'random', 'tpe' or 'qmc', not 'grid'",
            "One of random, tpe, qmc.",
        ),
        ("alpha: 0.05", "alpha: 0.5", "  alpha", "decision.alpha must be below 0.5, not 0.5", ""),
        ("alpha: 0.05", "alpha: '0.05'", "  alpha", "must be a number, not '0.05'", ""),
        ("scales: [s1, s2]", "scales: s1", "  scales", "design.scales must be a list", ""),
        ("scales: [s1, s2]", "scales: [s1]", "  scales", "needs at least 2, has 1", ""),
        ("held_fixed:\n    - ", "held_fixed:\n    - ' '\n    - ", "    - ' '", "[0] is empty", ""),
        (
            "proxies/blank.yaml",
            "../blank.yaml",
            "  recipe:",
            "sweep.recipe does not have the form",
            "The recipe file.",
        ),
        ("of: model.d_model\n", "", "    - key: optimizer", "rule 'power' needs 'of'", ""),
        ("pruning:\n", "pruning: none\n  pruned:\n", "  pruning", "must be a mapping", ""),
        ("seeds: 3\n", "seeds: 3\n  seeds: 4\n", "  seeds: 4", "duplicate key 'design.seeds'", ""),
    ],
)
def test_parse_proposal_fault_names_line_value_and_remedy(
    answered: str, old: str, new: str, at: str, message: str, remedy: str
) -> None:
    assert old in answered
    text = answered.replace(old, new, 1)
    found = [fault for fault in faults_of(text) if message in fault.message]
    assert len(found) == 1
    assert found[0].where == f"proposal.md:{line_of(text, at)}"
    assert remedy in found[0].remedy


def test_parse_proposal_placeholder_in_prose_is_refused(answered: str) -> None:
    text = f"{answered}\nWe expect FILL IN here.\n"
    (fault,) = faults_of(text)
    assert fault.where == f"proposal.md:{line_of(text, 'We expect')}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not begin with a line '---'"),
        ("title: x\n", "does not begin with a line '---'"),
        ("---\ntitle: x\n", "has no second '---'"),
        ("---\n---\n", "proposal is missing"),
        ("---\n- a\n---\n", "must be a mapping"),
    ],
)
def test_parse_proposal_without_front_matter_is_refused(text: str, words: str) -> None:
    assert any(words in fault.message for fault in faults_of(text))


def test_parse_proposal_message_counts_and_lists_the_faults(answered: str) -> None:
    text = answered.replace("seeds: 3", "seeds: 0").replace("alpha: 0.05", "alpha: 2")
    with pytest.raises(InvalidFileError, match=r"proposal\.md has 2 faults\n") as refused:
        parse_proposal(text, "proposal.md")
    assert refused.value.exit_code == 3
    assert "pydantic" not in str(refused.value)


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        yield path
        for part in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from fields_of(part, f"{path}.")


def test_proposal_form_explains_every_field_of_the_model() -> None:
    hints = proposal_hints()
    missing = [field for field in fields_of(Proposal) if not hints.get(field)]
    assert missing == []


def test_proposal_form_has_no_field_that_the_model_lacks() -> None:
    known = set(fields_of(Proposal))
    assert [field for field in proposal_hints() if field not in known] == []
