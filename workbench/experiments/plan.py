"""What an experiment runs from: the registered documents, or the draft files when exploring."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import sha256_hex
from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.approvals import require_approved
from workbench.experiments.registered import refuse_withdrawn, registered
from workbench.layout import Layout
from workbench.proxies.recipe import FullScale, Recipe
from workbench.proxies.recipe_file import load_full, load_recipe
from workbench.registry.amended import course_of
from workbench.registry.entries import Mode
from workbench.registry.frontmatter import parse_proposal
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import PLACEHOLDER, Proposal


@dataclass(frozen=True, kw_only=True)
class ExperimentPlan:
    """One experiment's documents, typed, and where its seeds come from."""

    subject: str
    """``NNNN-slug``."""
    mode: Mode
    proposal: Proposal
    recipe: Recipe
    recipe_sha256: str
    full: FullScale
    registration: Entry | None
    """As it is in force: with the content of the newest amendment."""
    amendments: tuple[Entry, ...] = ()
    """Oldest first."""
    seeds: tuple[int, ...]
    """Training seed of each repeat, the same in every arm. Confirmatory seeds are time-locked
    (record-format.md, "Seeds"): nobody knew them before the registration."""

    @property
    def leaf(self) -> str:
        """Leaf hash of the registration; empty when exploring."""
        return self.registration.leaf if self.registration else ""

    @property
    def refs(self) -> tuple[str, ...]:
        """What every entry under this plan refers to first: registration and amendments."""
        return (self.leaf, *(entry.leaf for entry in self.amendments)) if self.leaf else ()


def registered_plan(source: LogSource, subject: str) -> ExperimentPlan:
    """Return the plan of a registered experiment, read from the ledger and not from the files.

    What amendments changed is in it.

    Raises:
        NotRegisteredError: there is no registration, or it waits for approvals.
        ConflictError: it was withdrawn.
    """
    found = registered(source, subject)
    require_approved(source, subject)
    return ExperimentPlan(
        subject=subject,
        mode="confirmatory",
        proposal=found.proposal,
        recipe=found.recipe,
        recipe_sha256=found.body.recipe.sha256,
        full=found.full,
        registration=found.entry,
        amendments=found.amendments,
        seeds=found.seeds,
    )


def refuse_outdated(source: LogSource, plan: ExperimentPlan) -> None:
    """Refuse a plan that was amended or withdrawn since it was read; the caller holds the lock.

    Raises:
        ConflictError: what would run is no longer what is in force.
    """
    if plan.mode == "exploratory":
        return
    course = course_of(source, plan.subject)
    refuse_withdrawn(course, plan.subject)
    if tuple(amendment.entry.leaf for amendment in course.amendments) != plan.refs[1:]:
        raise ConflictError(
            f"{plan.subject} was amended while this command started",
            remedy="repeat the command: it then runs what is in force",
        )


def draft_plan(layout: Layout, folder: Path) -> ExperimentPlan:
    """Return the plan of the files as they are now, for exploring.

    Answers that are still owed do not matter to an exploration and are filled in for it.

    Raises:
        InvalidFileError: a file is missing or malformed.
    """
    proposal_path = folder / "proposal.md"
    proposal = parse_proposal(_explorable(_read(proposal_path)), proposal_path.name)
    recipe_text = _read(layout.root / proposal.sweep.recipe)
    return ExperimentPlan(
        subject=folder.name,
        mode="exploratory",
        proposal=proposal,
        recipe=load_recipe(recipe_text, proposal.sweep.recipe),
        recipe_sha256=sha256_hex(recipe_text.encode()),
        full=load_full(_read(folder / "full.yaml"), "full.yaml"),
        registration=None,
        seeds=tuple(_exploratory_seed(folder.name, i) for i in range(proposal.design.seeds)),
    )


def _explorable(text: str) -> str:
    """Return the proposal with a neutral answer wherever the form's placeholder still stands."""
    neutral = {
        f"claim: superior({PLACEHOLDER})": "claim: superior(0)",
        f"foreknowledge: {PLACEHOLDER}": "foreknowledge: none",
        f"minimum_effect: {PLACEHOLDER}": "minimum_effect: 1.0e-9",
        f"expected_improvement: {PLACEHOLDER}": "expected_improvement: 0",
        PLACEHOLDER: "not answered",
    }
    for owed, answer in neutral.items():
        text = text.replace(owed, answer)
    return text


def _exploratory_seed(subject: str, index: int) -> int:
    digest = hashlib.sha256(f"exploratory|{subject}|{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidFileError(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{path.name} is not UTF-8: {error}") from error
