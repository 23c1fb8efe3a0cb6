"""The promoted full-scale configuration as a file to read; what runs is the ledger's copy."""

import io
from pathlib import Path

from ruamel.yaml import YAML

from workbench.errors import NotFoundError
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.promotion import find_promotion, promotion_body
from workbench.layout import Layout
from workbench.registry.entries import KeyChange
from workbench.registry.log import Entry, LogSource
from workbench.training.config import RunConfig


def write_promoted(layout: Layout, promotion: Entry) -> Path:
    """Write ``reports/NNNN-slug/full-scale.yaml`` and return its path."""
    body = promotion_body(promotion)
    folder = layout.reports / promotion.subject
    folder.mkdir(parents=True, exist_ok=True)
    arms = {
        arm: RunConfig.model_validate(config).model_dump(mode="json")
        for arm, config in body.configs.items()
    }
    text = io.StringIO()
    yaml = YAML()
    yaml.dump({"promotion": promotion.id, "mode": body.mode, "arms": arms}, text)
    path = folder / "full-scale.yaml"
    path.write_text(_preamble(promotion, body.changes) + text.getvalue(), "utf-8")
    return path


def promoted_config(source: LogSource, plan: ExperimentPlan, arm: str) -> RunConfig:
    """Return the full-scale configuration of an arm, as the ledger has it.

    Raises:
        NotFoundError: nothing was promoted, or there is no such arm.
    """
    promotion = find_promotion(source, plan)
    if promotion is None:
        raise NotFoundError(
            f"{plan.subject} has no promotion yet, so no full-scale configuration",
            remedy=f"workbench promote {plan.subject[:4]}",
        )
    configs = promotion_body(promotion).configs
    if arm not in configs:
        raise NotFoundError(
            f"{plan.subject} has no arm {arm!r} at full scale", remedy=f"use {', '.join(configs)}"
        )
    return RunConfig.model_validate(configs[arm])


def _preamble(promotion: Entry, changes: list[KeyChange]) -> str:
    lines = [
        f"Generated from entry {promotion.sequence} of the ledger; what runs is that entry.",
        "Keys that differ from the proxies, and why:",
        *(f"  {c.key}: {c.proxy} -> {c.full} ({c.explained_by})" for c in changes),
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)
