"""Propose: a question becomes a folder with a proposal to fill in."""

import math
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.canonical import Json
from workbench.errors import ConflictError, InvalidFileError, NotFoundError
from workbench.experiments.locks import filing_lock
from workbench.layout import Layout, slug
from workbench.proxies.recipe import Recipe, dotted
from workbench.proxies.recipe_file import load_recipe
from workbench.registry.located import REORDERING, decode
from workbench.scaffold.forms import Form, Override, full_text, proposal_text
from workbench.scaffold.lab import DEFAULT_RECIPE

MAX_TITLE = 200


def propose(
    layout: Layout, title: str, *, owner: str, recipe: str | None = None, called: str = ""
) -> Path:
    """Write the next experiment's ``proposal.md`` and ``full.yaml`` and return their folder.

    Whatever the recipe already says is filled in. The folder appears whole or not at all, and two
    calls at once get two numbers.

    Args:
        layout: The lab.
        title: The question in one line.
        owner: Who answers for it.
        recipe: Path of a recipe, relative to the lab's root; the lab's default if None.
        called: What the folder is called after its number, which an embargo does not withhold; the
            title's first words if empty.

    Raises:
        InvalidFileError: the title or the name cannot be used, or the recipe has faults.
        NotFoundError: there is no such recipe.
    """
    text = _usable_title(title)
    name = slug(called or text)
    path, base = _recipe(layout, recipe or DEFAULT_RECIPE)
    layout.experiments.mkdir(parents=True, exist_ok=True)
    with filing_lock(layout):
        number = f"{_next_number(layout.experiments):04d}"
        form = _form(base, path, number=number, name=name, title=text, owner=owner)
        folder = layout.experiments / f"{number}-{name}"
        _write_whole(folder, {"proposal.md": proposal_text(form), "full.yaml": full_text(form)})
    return folder


def _usable_title(title: str) -> str:
    text = unicodedata.normalize("NFC", title.strip())
    strange = [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    if not text or len(text) > MAX_TITLE or strange or REORDERING.search(text):
        raise InvalidFileError(
            f"title {title[:MAX_TITLE]!r} is not one line of 1 to {MAX_TITLE} characters",
            remedy='workbench propose "a question in one line"',
        )
    return text


def _recipe(layout: Layout, path: str) -> tuple[str, Recipe]:
    file = layout.root / path
    inside = file.resolve().parent == layout.proxies.resolve()
    if not inside or not file.is_file():
        found = sorted(recipe.name for recipe in layout.proxies.glob("*.yaml"))
        known = ", ".join(f"{layout.proxies.name}/{name}" for name in found) or "none"
        raise NotFoundError(
            f"recipe {path!r} is not a file in {layout.proxies.name}/ (known: {known})",
            remedy=f'workbench propose "a title" --recipe {layout.proxies.name}/NAME.yaml',
        )
    where = f"{layout.proxies.name}/{file.name}"
    return where, load_recipe(decode(file.read_bytes(), where), where)


def _form(recipe: Recipe, path: str, *, number: str, name: str, title: str, owner: str) -> Form:
    control = dotted(recipe.control())
    values = ", ".join(f"{key} = {_short(value)}" for key, value in control.items())
    return Form(
        number=number,
        slug=name,
        title=title,
        owner=owner,
        kind=_kind(list(recipe.space)),
        recipe_path=path,
        recipe_identity=recipe.recipe,
        manipulated=list(recipe.space),
        control_arm=f"the recipe's base: {values}",
        scales=[scale.name for scale in recipe.scales],
        domains=list(recipe.corpus.sources),
        loss_above=math.ceil(math.log(recipe.base.model.vocab_size)) + 4,
        overrides=_overrides(recipe),
    )


def _overrides(recipe: Recipe) -> list[Override]:
    """Return a full scale of twice the base in width, depth and steps."""
    model, steps = recipe.base.model, recipe.base.steps
    lr = float(f"{recipe.base.optimizer.lr * 2**-0.5:.3g}")
    grown = [
        Override(
            key="model.d_model",
            value=2 * model.d_model,
            why="twice the width of the base: what the compute at hand allows",
        ),
        Override(
            key="model.num_layers",
            value=2 * model.num_layers,
            why="twice the depth, so that width and depth grow together",
        ),
        Override(key="steps", value=steps * 2, why="more tokens for the larger model"),
        Override(
            key="optimizer.lr",
            value=lr,
            of="model.d_model",
            exponent=-0.5,
            why="a wider model takes smaller steps; the ladder's scales follow the same rule",
        ),
    ]
    # A key that the sweep decides is not the full scale's to set, nor is one that would follow it.
    searched = recipe.space
    return [o for o in grown if o.key not in searched and o.of not in searched]


def _kind(manipulated: Sequence[str]) -> str:
    kinds = {
        "mixture": "data_mixture",
        "balance": "balance",
        "phase_fractions": "schedule",
        "phases": "schedule",
        "model": "architecture",
        "optimizer": "optimizer",
    }
    found = [kinds[key.partition(".")[0]] for key in manipulated if key.partition(".")[0] in kinds]
    return found[0] if found else "other"


def _short(value: Json) -> str:
    if isinstance(value, Mapping):
        return "/".join(f"{name} {_short(share)}" for name, share in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _next_number(experiments: Path) -> int:
    # Whatever begins with four digits has taken its number, also what a person named by hand.
    taken = [path.name[:4] for path in experiments.iterdir() if path.name[:4].isdecimal()]
    number = max(map(int, taken), default=0) + 1
    if number > 9999:
        raise ConflictError("experiment numbers end at 9999", remedy="workbench init another-lab")
    return number


def _write_whole(folder: Path, files: Mapping[str, str]) -> None:
    """Write a folder under a hidden name and give it its own in one step.

    The caller holds the lock, so that a hidden folder can only be what a killed process left.
    """
    for left in folder.parent.glob(".[0-9][0-9][0-9][0-9]-*"):
        shutil.rmtree(left)
    draft = folder.parent / f".{folder.name}"
    try:
        draft.mkdir()
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="\n")
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
