"""What an experiment runs from: the registered documents, or the draft files when exploring."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import sha256_hex
from workbench.errors import IntegrityError, InvalidFileError, NotRegisteredError
from workbench.layout import Layout
from workbench.proxies.recipe import FullScale, Recipe
from workbench.proxies.recipe_file import load_full, load_recipe
from workbench.registry.entries import Anchor, Document, Mode, Registration
from workbench.registry.frontmatter import parse_proposal
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import Proposal
from workbench.registry.seeds import time_locked_seed


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
    anchor: Anchor | None

    @property
    def leaf(self) -> str:
        """Leaf hash of the registration; empty when exploring."""
        return self.registration.leaf if self.registration else ""

    @property
    def refs(self) -> tuple[str, ...]:
        """What every entry under this plan refers to first."""
        return (self.leaf,) if self.leaf else ()

    def seed(self, index: int) -> int:
        """Return the training seed of repeat ``index``, the same in every arm.

        Confirmatory seeds are time-locked (record-format.md, "Seeds"): nobody knew them before
        the registration. Exploratory seeds are a plain hash of the experiment's name.
        """
        if self.registration is not None and self.anchor is not None:
            return time_locked_seed(self.anchor.head, self.registration.leaf, index)
        digest = hashlib.sha256(f"exploratory|{self.subject}|{index}".encode()).digest()
        return int.from_bytes(digest[:8], "big")


def registered_plan(source: LogSource, subject: str) -> ExperimentPlan:
    """Return the plan of a registered experiment, read from the ledger and not from the files.

    Raises:
        NotRegisteredError: there is no registration.
        IntegrityError: the registration has no anchor, so its seeds cannot be known.
    """
    registration = find_registration(source, subject)
    if registration is None:
        number = subject[:4]
        raise NotRegisteredError(
            f"experiment {subject} is not registered, so nothing confirmatory may run",
            remedy=f"workbench register {number}   (or explore, watermarked for ever: add "
            "--exploratory)",
        )
    body = registration.body
    if not isinstance(body, Registration):
        raise IntegrityError(f"entry {registration.id} is not a registration")
    return ExperimentPlan(
        subject=subject,
        mode="confirmatory",
        proposal=parse_proposal(body.proposal.text, body.proposal.path),
        recipe=load_recipe(body.recipe.text, body.recipe.path),
        recipe_sha256=body.recipe.sha256,
        full=load_full(body.full.text, body.full.path),
        registration=registration,
        anchor=_anchor_of(source, registration),
    )


def draft_plan(layout: Layout, folder: Path) -> ExperimentPlan:
    """Return the plan of the files as they are now, for exploring.

    Raises:
        InvalidFileError: a file is missing or malformed.
    """
    proposal_path = folder / "proposal.md"
    proposal = parse_proposal(_read(proposal_path), proposal_path.name)
    recipe_text = _read(layout.root / proposal.sweep.recipe)
    return ExperimentPlan(
        subject=folder.name,
        mode="exploratory",
        proposal=proposal,
        recipe=load_recipe(recipe_text, proposal.sweep.recipe),
        recipe_sha256=sha256_hex(recipe_text.encode()),
        full=load_full(_read(folder / "full.yaml"), "full.yaml"),
        registration=None,
        anchor=None,
    )


def find_registration(source: LogSource, subject: str) -> Entry | None:
    """Return the experiment's registration entry, or None."""
    return next(source.entries(kind="registration", subject=subject), None)


def changed_documents(layout: Layout, registration: Registration) -> Iterator[Document]:
    """Yield each registered document whose file has changed since; such edits have no effect."""
    for document in (registration.proposal, registration.recipe, registration.full):
        path = layout.root / document.path
        if not path.is_file() or sha256_hex(path.read_bytes()) != document.sha256:
            yield document


def _anchor_of(source: LogSource, registration: Entry) -> Anchor:
    for entry in source.entries(kind="anchor", subject=registration.subject):
        if registration.leaf in entry.refs and isinstance(entry.body, Anchor):
            return entry.body
    raise IntegrityError(
        f"registration {registration.id} has no anchor entry, so its seeds are unknown",
        remedy=f"workbench register {registration.subject[:4]}   (completes it)",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidFileError(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{path.name} is not UTF-8: {error}") from error
