"""What repeats make: one noise floor on record, whether they ran here or elsewhere."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from workbench.analysis.claims import sample_variance
from workbench.data.build import build_corpus
from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.deviations import refuse_other_data
from workbench.experiments.floors import floor_entries
from workbench.experiments.repeat_import import read_repeats
from workbench.experiments.repeat_plan import RepeatPlan
from workbench.layout import Layout
from workbench.planner.counts import total_parameters
from workbench.registry.entries import CodeState, NoiseFloor, Repeat
from workbench.registry.ledger import Ledger
from workbench.registry.located import decode
from workbench.registry.log import Entry, LogSource
from workbench.training.phases import average_mixture


def repeat_corpus(
    plan: RepeatPlan, layout: Layout, progress: Callable[[str, float], None]
) -> Corpus:
    """Return the plan's corpus, built first unless it exists, its open files verified.

    Raises:
        IntegrityError: it is not what was built, or not the registered one.
    """
    corpus = build_corpus(
        plan.recipe.corpus, root=layout.root, corpora=layout.corpora, progress=progress
    )
    if plan.data is not None:
        refuse_other_data(plan.data, corpus.state())
    corpus.verify_open()
    return corpus


def imported_floor(
    plan: RepeatPlan,
    corpus: Corpus,
    file: Path,
    *,
    ledger: Ledger,
    metric: str,
    code: CodeState,
) -> Entry:
    """Append the noise floor of repeats that were made elsewhere.

    Args:
        plan: The configuration that they are of, by the word of who imports them.
        corpus: What they were trained on.
        file: CSV, read by `read_repeats`.
        ledger: Appended to.
        metric: What a column ``value`` holds.
        code: Of the lab.

    Raises:
        InvalidFileError: the file cannot be read.
        ConflictError: it was imported before for this configuration.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{file} cannot be read: {error.strerror}") from error
    known = ["bpb_macro", *(f"bpb_{domain}" for domain in corpus.domains)]
    repeats = read_repeats(decode(data, file.name), file.name, known=known, metric=metric)
    source = f"{file.name} sha256:{hashlib.sha256(data).hexdigest()}"
    body = noise_floor(plan, corpus, repeats, origin="imported", source=source, code=code)
    earlier = same_floor(ledger, body)
    if earlier is not None:
        raise ConflictError(
            f"the repeats of {file.name} are on record: entry {earlier.sequence}",
            remedy=f"use it: noise_floor: {earlier.leaf}",
        )
    return ledger.append(body, subject=plan.subject, refs=plan.refs)


def noise_floor(
    plan: RepeatPlan,
    corpus: Corpus,
    repeats: Sequence[Repeat],
    *,
    origin: Literal["run", "imported"],
    source: str,
    code: CodeState,
) -> NoiseFloor:
    """Return the noise floor of repeats; diverged and failed ones are in it and not in its spreads.

    Raises:
        InvalidFileError: a mixture of the configuration names a domain that the corpus lacks.
    """
    state = corpus.state()
    return NoiseFloor(
        recipe=plan.recipe.recipe,
        recipe_sha256=plan.recipe_sha256,
        scale=plan.scale,
        experiment=plan.experiment,
        config_sha256=plan.config_sha256,
        parameters=total_parameters(plan.config.model),
        mixture=average_mixture(plan.config, corpus),
        corpus=state.corpus,
        corpus_manifest=state.manifest,
        evaluation_set="validation",
        origin=origin,
        source=source,
        repeats=list(repeats),
        num_runs=sum(repeat.state == "completed" for repeat in repeats),
        spreads=spreads_of(repeats),
        device_seconds=math.fsum(repeat.device_seconds for repeat in repeats),
        code=code,
    )


def spreads_of(repeats: Iterable[Repeat]) -> dict[str, float]:
    """Return the sample standard deviation by metric over the completed repeats.

    Only of metrics that every one of them has; none of fewer than two.
    """
    values = [repeat.values for repeat in repeats if repeat.state == "completed"]
    if len(values) < 2:
        return {}
    shared = [metric for metric in values[0] if all(metric in found for found in values)]
    return {
        metric: math.sqrt(sample_variance([found[metric] for found in values])) for metric in shared
    }


def same_floor(source: LogSource, body: NoiseFloor) -> Entry | None:
    """Return the newest entry that says of these very repeats what the body would say again."""
    found = None
    for entry, other in floor_entries(source):
        same = other.config_sha256 == body.config_sha256 and other.repeats == body.repeats
        if same and other.corpus_manifest == body.corpus_manifest:
            found = entry
    return found
