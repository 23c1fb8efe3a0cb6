"""The files of a new experiment, with everything filled in that the recipe already says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.scaffold.lab import filled, quoted, template


@dataclass(frozen=True, kw_only=True)
class Override:
    """A key of the full-scale configuration and why it differs from the recipe's base."""

    key: str
    value: int | float
    why: str
    of: str = ""
    """Key that a power rule follows; empty for a registered value."""
    exponent: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a new proposal says before its author begins."""

    number: str
    """``NNNN``."""
    slug: str
    title: str
    owner: str
    kind: str
    recipe_path: str
    recipe_identity: str
    manipulated: Sequence[str]
    control_arm: str
    scales: Sequence[str]
    domains: Sequence[str]
    loss_above: float
    overrides: Sequence[Override]


def proposal_text(form: Form) -> str:
    """Return ``proposal.md`` with ``FILL IN`` where an answer is owed."""
    return filled(template("experiments/proposal.md"), _values(form))


def full_text(form: Form) -> str:
    """Return ``full.yaml``."""
    return filled(template("experiments/full.yaml"), _values(form))


def blank_form() -> Form:
    """Return a form that shows every field of a proposal, for the comments above them."""
    power = Override(
        key="optimizer.lr", value=0.1, why="an example", of="model.d_model", exponent=-0.5
    )
    return Form(
        number="0001",
        slug="blank",
        title="Blank",
        owner="nobody",
        kind="other",
        recipe_path="proxies/blank.yaml",
        recipe_identity="blank@1",
        manipulated=["balance.weight"],
        control_arm="-",
        scales=["s1", "s2"],
        domains=["code"],
        loss_above=12.0,
        overrides=[power],
    )


def _values(form: Form) -> dict[str, str]:
    metrics = [f"bpb_{domain}" for domain in form.domains]
    return {
        "number": form.number,
        "title": quoted(form.title),
        "owner": quoted(form.owner),
        "kind": form.kind,
        "recipe_path": form.recipe_path,
        "recipe_identity": form.recipe_identity,
        "full_name": f"{form.number}-{form.slug}",
        "manipulated": ", ".join(form.manipulated),
        "control_arm": quoted(form.control_arm),
        "scales": ", ".join(form.scales),
        "secondary": ", ".join(metrics),
        "first_domain": form.domains[0],
        "loss_above": f"{form.loss_above:.1f}",
        "scaling_rules": _scaling_rules(form.overrides),
        "full_overrides": "\n".join(f"  {o.key}: {o.value!r}" for o in form.overrides),
    }


_RULE_COMMENTS: Mapping[str, str] = {
    "key": "A key of full.yaml's overrides.",
    "rule": "registered (full.yaml's value stands) or power (base × (ratio of a key)^exponent).",
    "of": "Rule power: the key whose ratio of full scale to base is raised to the exponent.",
    "exponent": "Rule power: any number.",
    "why": "Why this value, or this exponent, is right.",
}


def _scaling_rules(overrides: Sequence[Override]) -> str:
    """Return the list items; the first mention of each field carries its comment."""
    lines: list[str] = []
    explained: set[str] = set()
    for override in overrides:
        for number, (field, value) in enumerate(_rule_fields(override).items()):
            if field not in explained:
                lines.append(f"{' ' * (4 if number == 0 else 6)}# {_RULE_COMMENTS[field]}")
                explained.add(field)
            lines.append(f"{'    - ' if number == 0 else '      '}{field}: {value}")
    return "\n".join(lines) or "    []"


def _rule_fields(override: Override) -> dict[str, str]:
    fields = {"key": override.key, "rule": "power" if override.of else "registered"}
    if override.of:
        fields |= {"of": override.of, "exponent": repr(override.exponent)}
    return fields | {"why": quoted(override.why)}
