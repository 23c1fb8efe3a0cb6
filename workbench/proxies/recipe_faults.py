"""What can be wrong with a recipe although every field fits its type.

Works on the parts that are sound by themselves, so that one fault does not hide another.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, TypeAdapter, ValidationError

from workbench.canonical import Json
from workbench.data.config import CorpusConfig, ReferenceConfig
from workbench.errors import Fault
from workbench.planner.counts import training_flops_per_token
from workbench.proxies.recipe import (
    SIMPLEX_KEYS,
    Choice,
    Dimension,
    LogUniform,
    MixtureSpace,
    PhaseSpace,
    Scale,
    Uniform,
    dotted,
    nested,
    with_values,
)
from workbench.registry.located import Located, Path
from workbench.registry.schema_faults import nearest, part, sentence
from workbench.training.config import RunConfig

BUILTIN = ("code", "docs", "math")


def recipe_faults(document: Located) -> list[Fault]:
    """Return every fault between the parts of a recipe."""
    base = base_config(document)
    corpus = _corpus_config(document)
    faults = corpus_faults(document)
    searched = _keys(document, ("space",))
    faults += _scale_faults(document, base, searched)
    if base is not None and corpus is not None:
        faults += _corpus_faults(document, base, corpus)
    return [*faults, *_space_faults(document, base)]


def base_config(document: Located) -> RunConfig | None:
    """Return a recipe's base as far as other parts can be compared with it, None if not at all.

    Shares that do not sum to 1 are normalised: that fault is told by itself and must not hide the
    others.
    """
    base = document.get(("base",))
    if not isinstance(base, Mapping):
        return None
    normal = {
        key: _normalised(value) if key in SIMPLEX_KEYS else value for key, value in base.items()
    }
    try:
        return RunConfig.model_validate(normal)
    except ValidationError:
        return None


def _normalised(shares: Json) -> Json:
    fits = isinstance(shares, Mapping) and all(
        isinstance(share, int | float) and share >= 0 for share in shares.values()
    )
    total = math.fsum(shares.values()) if fits else 0.0
    return {name: share / total for name, share in shares.items()} if total > 0 else shares


def config_keys(model: type[BaseModel] = RunConfig, prefix: str = "") -> tuple[str, ...]:
    """Return the dotted keys of every run configuration, in the order of its fields."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += config_keys(kind, f"{prefix}{name}.")
        else:
            found.append(f"{prefix}{name}")
    return tuple(found)


def override_faults(
    document: Located, path: Path, base: RunConfig | None, *, searched: Sequence[str]
) -> list[Fault]:
    """Return every fault of dotted overrides of a base configuration.

    Args:
        document: The file that holds them.
        path: Where in the file the mapping of overrides is.
        base: What they override; None while that has faults of its own, which leaves the keys.
        searched: Keys that the sweep decides, which no override may touch.
    """
    overrides = document.get(path)
    if not isinstance(overrides, Mapping):
        return []
    known = config_keys()
    faults: list[Fault] = []
    usable: dict[str, Json] = {}
    for key, value in overrides.items():
        problem = _override_problem(key, known, searched)
        if problem is not None:
            faults.append(document.fault((*path, key), *problem))
        else:
            usable[key] = value
    merged = _merged_faults(document, path, base, usable) if base is not None else ()
    return [*faults, *merged]


def _override_problem(
    key: str, known: Sequence[str], searched: Sequence[str]
) -> tuple[str, str] | None:
    if key in searched:
        remedy = "remove it: the sweep and the promotion give this key its value"
        return f"override {key!r} is a key of the recipe's space", remedy
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        return f"override {key!r} holds several keys", f"name them one by one: {', '.join(below)}"
    if key not in known:
        return f"override {key!r} is not a key of the run configuration", nearest(key, known)
    return None


def _merged_faults(
    document: Located, path: Path, base: RunConfig, overrides: Mapping[str, Json]
) -> Iterator[Fault]:
    try:
        with_values(base, nested(overrides))
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = ".".join(str(step) for step in detail["loc"])
            guilty = [name for name in overrides if _same_branch(name, key)]
            place = (*path, guilty[0]) if guilty else path
            name = guilty[0] if len(guilty) == 1 else key or "the configuration"
            value = (
                f", not {overrides[name]!r}" if detail["type"] != "value_error" and guilty else ""
            )
            yield document.fault(place, f"override {name} {sentence(detail)}{value}")


def _same_branch(name: str, key: str) -> bool:
    return not key or name == key or name.startswith(f"{key}.") or key.startswith(f"{name}.")


def corpus_faults(document: Located) -> list[Fault]:
    """Return every fault between the parts of a corpus."""
    corpus = _corpus_config(document)
    found = [*_source_faults(document, corpus)] if corpus is not None else []
    return [*_quality_faults(document), *found]


def _corpus_config(document: Located) -> CorpusConfig | None:
    """Return the corpus as far as other parts can be compared with it, None if not at all.

    Without its quality section where that alone is at fault, which is told by itself.
    """
    corpus = part(document, ("corpus",), TypeAdapter(CorpusConfig))
    plain = document.get(("corpus",))
    if corpus is not None or not isinstance(plain, Mapping):
        return corpus
    try:
        return CorpusConfig.model_validate({k: v for k, v in plain.items() if k != "quality"})
    except ValidationError:
        return None


def _quality_faults(document: Located) -> Iterator[Fault]:
    known = _keys(document, ("corpus", "sources"))
    path: Path = ("corpus", "quality", "domains")
    domains = document.get(path)
    for place, domain in enumerate(domains if isinstance(domains, list) else ()):
        if isinstance(domain, str) and domain not in known:
            message = f"quality.domains names {domain!r}, which is no domain of the corpus"
            yield document.fault((*path, place), message, nearest(domain, known))


def _source_faults(document: Located, corpus: CorpusConfig) -> Iterator[Fault]:
    """Yield every source, reference and evaluation set that names nothing that can be read."""
    read: dict[Path, ReferenceConfig] = {
        ("sources", domain): source for domain, source in corpus.sources.items()
    }
    if corpus.quality is not None:
        read["quality", "reference"] = corpus.quality.reference
    for name, reference in corpus.contamination.evaluation.items():
        read["contamination", "evaluation", name] = reference
    for where, source in read.items():
        kind, _, name = source.source.partition(":")
        path = ("corpus", *where, "source")
        if not name:
            yield document.fault(path, f"source {source.source!r} names nothing after ':'")
        elif kind == "builtin" and name not in BUILTIN:
            remedy = f"use one of {', '.join(f'builtin:{known}' for known in BUILTIN)}"
            yield document.fault(path, f"source {source.source!r} is not built in", remedy)


def _corpus_faults(document: Located, base: RunConfig, corpus: CorpusConfig) -> Iterator[Fault]:
    domains = list(corpus.sources)
    vocabulary = corpus.tokenizer.vocab_size
    if base.model.vocab_size != vocabulary:
        yield document.fault(
            ("base", "model", "vocab_size"),
            f"model.vocab_size {base.model.vocab_size} is not the tokenizer's {vocabulary}",
            f"write {vocabulary}",
        )
    mixtures: list[tuple[Path, Mapping[str, float] | str | None]] = [
        (("base", "mixture"), base.mixture)
    ]
    mixtures += [
        (("base", "phases", i, "mixture"), phase.mixture) for i, phase in enumerate(base.phases)
    ]
    for path, mixture in mixtures:
        for domain in mixture if isinstance(mixture, Mapping) else ():
            if domain not in domains:
                message = f"mixture names {domain!r}, which is no domain of the corpus"
                yield document.fault((*path, domain), message, nearest(domain, domains))
    space = part(document, ("space", "mixture"), TypeAdapter(MixtureSpace))
    for domain in space.domains if space else ():
        if domain not in domains:
            message = f"space mixture names {domain!r}, which is no domain of the corpus"
            yield document.fault(("space", "mixture", "domains"), message, nearest(domain, domains))


def _scale_faults(
    document: Located, base: RunConfig | None, searched: Sequence[str]
) -> Iterator[Fault]:
    scales = document.get(("scales",))
    names: dict[str, int] = {}
    largest = 0
    for i in range(len(scales) if isinstance(scales, list) else 0):
        path: Path = ("scales", i)
        scale = part(document, path, TypeAdapter(Scale))
        if scale is None:
            continue
        if scale.name in names:
            message = f"scale {scale.name!r} is defined twice"
            yield document.fault((*path, "name"), message, "give it another name")
        names[scale.name] = i
        faults = override_faults(document, (*path, "overrides"), base, searched=searched)
        yield from faults
        if base is not None and not faults:
            compute = training_flops(with_values(base, nested(scale.overrides)))
            if i and compute <= largest:
                message = (
                    f"scale {scale.name!r} trains with {compute:.3g} FLOPs, no more than the scale "
                    f"before it ({largest:.3g})"
                )
                yield document.fault(path, message, "order the scales by rising compute")
            largest = max(largest, compute)


def _space_faults(document: Located, base: RunConfig | None) -> Iterator[Fault]:
    known = dotted(base.model_dump(mode="json")) if base else {}
    for key in _keys(document, ("space",)):
        path: Path = ("space", key)
        if key not in config_keys():
            message = f"space key {key!r} is not a key of the base"
            yield document.fault(path, message, nearest(key, config_keys()))
            continue
        dimension = part(document, path, TypeAdapter[Dimension](Dimension))
        if dimension is None:
            continue
        problem = _kind_problem(key, dimension, known.get(key))
        if problem is not None:
            yield document.fault((*path, "kind"), *problem)
            continue
        problems = [*_dimension_problems(dimension, base)]
        yield from (document.fault(path, *problem) for problem in problems)
        if base is not None and not problems:
            yield from _reach_faults(document, base, key, dimension)


def _kind_problem(key: str, dimension: Dimension, value: Json) -> tuple[str, str] | None:
    wanted = {"mixture": "simplex", "phase_fractions": "fractions"}.get(key)
    if wanted and dimension.kind not in (wanted, "choice"):
        return f"space {key!r} cannot be of kind {dimension.kind!r}", f"use kind: {wanted}"
    if not wanted and dimension.kind in ("simplex", "fractions"):
        place = "mixture" if dimension.kind == "simplex" else "phase_fractions"
        return f"kind {dimension.kind!r} is for the key {place!r}, not {key!r}", (
            "use log_uniform, uniform or choice"
        )
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and dimension.kind in ("uniform", "log_uniform"):
        return f"space {key!r} must be a whole number, which {dimension.kind} does not give", (
            "use kind: choice with the values to try"
        )
    return None


def _dimension_problems(dimension: Dimension, base: RunConfig | None) -> Iterator[tuple[str, str]]:
    if isinstance(dimension, LogUniform | Uniform) and not dimension.low < dimension.high:
        yield f"low {dimension.low:g} is not below high {dimension.high:g}", "exchange the two"
    if isinstance(dimension, MixtureSpace):
        if len(set(dimension.domains)) < len(dimension.domains):
            yield f"domains {list(dimension.domains)} repeat one", "name each domain once"
        if dimension.minimum * len(dimension.domains) >= 1:
            limit = 1 / len(dimension.domains)
            yield (
                f"minimum {dimension.minimum:g} a domain leaves nothing to vary",
                (f"use a minimum below {limit:.4g}"),
            )
    if isinstance(dimension, PhaseSpace):
        yield from _fraction_problems(dimension, base)


def _fraction_problems(space: PhaseSpace, base: RunConfig | None) -> Iterator[tuple[str, str]]:
    named = [*space.ranges, space.rest]
    phases = [phase.name for phase in base.phases] if base else named
    if sorted(named) != sorted(phases):
        yield (
            f"ranges and rest name {named}, the base's phases are {phases}",
            "name each phase once: with a range, or as the rest",
        )
    for name, (low, high) in space.ranges.items():
        if not 0 <= low < high <= 1:
            yield f"range of {name!r} [{low:g}, {high:g}] is not rising within [0, 1]", ""
    total = math.fsum(high for _, high in space.ranges.values())
    if total > 1:
        message = f"the ranges' upper ends sum to {total:g} and can leave {space.rest!r} below 0"
        yield message, "lower them to sum to at most 1"


def _reach_faults(
    document: Located, base: RunConfig, key: str, dimension: Dimension
) -> Iterator[Fault]:
    """Try the ends of a dimension: the sweep must not find out that the model refuses them."""
    for field, value in _ends(dimension):
        try:
            with_values(base, nested({key: value}))
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            message = f"space {key!r} reaches {value!r}, but {key} {sentence(detail)}"
            yield document.fault(("space", key, *field), message)


def _ends(dimension: Dimension) -> list[tuple[Path, Json]]:
    if isinstance(dimension, LogUniform | Uniform):
        return [(("low",), dimension.low), (("high",), dimension.high)]
    if isinstance(dimension, Choice):
        return [(("values", i), value) for i, value in enumerate(dimension.values)]
    return []


def _keys(document: Located, path: Path) -> list[str]:
    value = document.get(path)
    return list(value) if isinstance(value, Mapping) else []


def training_flops(config: RunConfig) -> int:
    """Return the training FLOPs of a run of the configuration, as the planner counts them."""
    per_token = training_flops_per_token(config.model, config.batch.seq_len)
    return per_token * config.steps * config.tokens_per_step
