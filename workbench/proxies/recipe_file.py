"""Recipes and full-scale configurations as files: read with line numbers, every fault at once."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from workbench.data.config import CorpusConfig
from workbench.errors import Fault, InvalidFileError
from workbench.proxies.recipe import CorpusFile, FullScale, Recipe
from workbench.proxies.recipe_faults import corpus_faults, recipe_faults
from workbench.registry.frontmatter import counted
from workbench.registry.located import Located, in_file_order, key_name, read_yaml
from workbench.registry.schema_faults import comment_hints, validated
from workbench.scaffold.lab import DEFAULT_RECIPE, template

Model = TypeVar("Model", bound=BaseModel)


def examined_recipe(text: str, where: str) -> tuple[Located, Recipe | None, tuple[Fault, ...]]:
    """Return the located recipe, its model if the file is sound, and every fault.

    Raises:
        InvalidFileError: the text is not YAML.
    """
    document = read_yaml(text, where)
    recipe, faults = validated(Recipe, document, hints=_recipe_hints)
    between = recipe_faults(document)
    if between:
        faults = _without_cross_checks(faults)
    found = in_file_order([*faults, *between])
    return document, None if found else recipe, found


def examined_full(text: str, where: str) -> tuple[Located, FullScale | None, tuple[Fault, ...]]:
    """Return the located ``full.yaml``, its model if the file is sound, and every fault.

    What it must have in common with its recipe and proposal is the filing's to check.

    Raises:
        InvalidFileError: the text is not YAML.
    """
    document = read_yaml(text, where)
    full, faults = validated(FullScale, document, hints=_full_hints)
    return document, full, in_file_order(faults)


def load_recipe(text: str, where: str) -> Recipe:
    """Return the recipe.

    Raises:
        InvalidFileError: it cannot be accepted; carries every fault with its line.
    """
    _, recipe, faults = examined_recipe(text, where)
    return _sound(recipe, faults, where)


def load_corpus(text: str, where: str) -> CorpusConfig:
    """Return the corpus of a recipe, or of a file that holds nothing but a ``corpus`` section.

    Raises:
        InvalidFileError: it cannot be accepted; carries every fault with its line.
    """
    document = read_yaml(text, where)
    if not isinstance(document.value, Mapping) or set(document.value) != {"corpus"}:
        return load_recipe(text, where).corpus
    found, faults = validated(CorpusFile, document, hints=_recipe_hints)
    between = corpus_faults(document)
    if between:
        faults = (*_without_cross_checks(faults), *between)
    return _sound(found, in_file_order(faults), where).corpus


def refuse_corpus_alone(text: str, where: str) -> None:
    """Refuse a file of nothing but a ``corpus`` section where a run is asked for.

    Raises:
        InvalidFileError: it is one, or is not YAML.
    """
    value = read_yaml(text, where).value
    if isinstance(value, Mapping) and set(value) == {"corpus"}:
        raise InvalidFileError(
            f"{where} holds only a corpus: this needs a recipe with a run (base, scales, space)",
            remedy="name a recipe, like proxies/NAME.yaml, or add these sections below the corpus",
        )


def load_full(text: str, where: str) -> FullScale:
    """Return the full-scale configuration.

    Raises:
        InvalidFileError: it cannot be accepted; carries every fault with its line.
    """
    _, full, faults = examined_full(text, where)
    return _sound(full, faults, where)


def parsed_recipe(text: str, where: str) -> Recipe:
    """Return a recipe that was accepted before, without the checks that only new files owe.

    Raises:
        InvalidFileError: it does not fit the model; carries every fault with its line.
    """
    recipe, faults = validated(Recipe, read_yaml(text, where), hints=_recipe_hints)
    return _sound(recipe, faults, where)


def parsed_full(text: str, where: str) -> FullScale:
    """Return a full-scale configuration that was accepted before.

    Raises:
        InvalidFileError: it does not fit the model; carries every fault with its line.
    """
    return load_full(text, where)


def _sound(model: Model | None, faults: tuple[Fault, ...], where: str) -> Model:
    if model is None or faults:
        raise InvalidFileError(f"{where} has {counted(len(faults))}", faults)
    return model


def _without_cross_checks(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Leave out the models' own checks between parts: they say less of the same, without a line."""
    whole = tuple(f"{key_name(path)}: " for path in ((), ("corpus",)))
    return tuple(fault for fault in faults if not fault.message.startswith(whole))


def _recipe_hints() -> Mapping[str, str]:
    return comment_hints(template(DEFAULT_RECIPE))


def _full_hints() -> Mapping[str, str]:
    return comment_hints(template("experiments/full.yaml"))
