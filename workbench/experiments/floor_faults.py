"""Whether the noise floor that a proposal names is one of its own control arm at full scale."""

from collections.abc import Iterator, Mapping

from workbench.analysis.rules import FEWEST_FLOOR_RUNS
from workbench.analysis.rules import NoiseFloor as FloorOfRule
from workbench.canonical import fingerprint
from workbench.errors import Fault, WorkbenchError
from workbench.experiments.draft import NOISE_FLOOR, ProposalDraft
from workbench.experiments.floors import floor_entries, floor_of, noise_floors
from workbench.proxies.recipe import FullScale, Recipe
from workbench.registry.entries import NoiseFloor
from workbench.registry.log import Entry, LogSource


def control_fingerprint(recipe: Recipe | None, full: FullScale | None) -> str | None:
    """Return the hash of the control's full-scale configuration, as a promotion records it.

    None while the files have faults.
    """
    if recipe is None or full is None:
        return None
    try:
        config = full.config(recipe, recipe.control())
    except ValueError:
        return None
    return fingerprint(config.model_dump(mode="json"))


def usable_floors(draft: ProposalDraft, source: LogSource | None) -> Mapping[str, FloorOfRule]:
    """Return the named floor's spreads by metric; empty where there is none that can be used."""
    if not draft.noise_floor or source is None:
        return {}
    try:
        return noise_floors(source, draft.noise_floor)
    except WorkbenchError:
        return {}  # `floor_faults` tells why, at its line


def floor_faults(
    draft: ProposalDraft,
    source: LogSource | None,
    subject: str,
    *,
    corpus: str | None,
    control: str | None,
) -> Iterator[Fault]:
    """Yield why the named noise floor is not one that this proposal's rule can take.

    Args:
        draft: The proposal.
        source: The log; nothing is said without one.
        subject: ``NNNN-slug``.
        corpus: ``name@version`` of the recipe's; None if unknown.
        control: `control_fingerprint`.
    """
    leaf = draft.noise_floor
    # Where the interval takes no floor, that is the fault.
    if not leaf or source is None or draft.interval != "calibrated_t":
        return
    remedy = _other(draft, source, corpus, control) or (
        f"workbench noise {subject[:4]} measures one and prints its leaf hash, or interval: welch_t"
    )
    try:
        entry, body = floor_of(source, leaf)
    except WorkbenchError as error:
        yield draft.document.fault(NOISE_FLOOR, error.message, remedy)
        return
    named = f"noise_floor {leaf[:12]} (entry {entry.sequence})"
    for words in _unfit(draft, body, corpus, control):
        yield draft.document.fault(NOISE_FLOOR, f"{named} {words}", remedy)


def _unfit(
    draft: ProposalDraft, floor: NoiseFloor, corpus: str | None, control: str | None
) -> Iterator[str]:
    if floor.num_runs < FEWEST_FLOOR_RUNS:
        yield (
            f"is of {floor.num_runs} runs, and calibrated_t takes at least {FEWEST_FLOOR_RUNS}: "
            "fewer say too little"
        )
    spreads = {metric for metric, spread in floor.spreads.items() if spread > 0}
    for metric in dict.fromkeys(claim.metric for claim in draft.claims):
        if metric is not None and metric not in spreads:
            yield f"has no spread of {metric}, only of {', '.join(sorted(spreads)) or 'nothing'}"
    if corpus is not None and floor.corpus != corpus:
        yield f"is of the corpus {floor.corpus}, and the recipe's is {corpus}"
    elif floor.scale != "full":
        yield f"is of scale {floor.scale} of {floor.recipe}, and the arms run at full scale"
    elif control is not None and floor.config_sha256 != control:
        of = floor.experiment or floor.recipe
        yield (
            f"is of another configuration ({_short(floor.config_sha256)}, full scale of {of}) than "
            f"this experiment's control ({_short(control)})"
        )


def _other(draft: ProposalDraft, source: LogSource, corpus: str | None, control: str | None) -> str:
    """Return what to paste where the log has a floor that fits; empty where it has none."""
    fitting: list[Entry] = [
        entry
        for entry, body in floor_entries(source)
        if control is not None and not list(_unfit(draft, body, corpus, control))
    ]
    return f'write noise_floor: "{fitting[-1].leaf}"' if fitting else ""


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
