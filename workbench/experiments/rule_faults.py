"""Decision rules that cannot be, each told once, at its line, with what to write instead.

What a rule is and why each of these is none says docs/decision-rules.md; `analysis.rules` refuses
the same, in its own words and without a line.
"""

import math
from collections.abc import Iterator, Sequence

from workbench.analysis.claims import IntervalKind
from workbench.analysis.eprocess import critical_t
from workbench.analysis.permutation import MOST_SPLITS, num_splits, smallest_p
from workbench.errors import Fault
from workbench.experiments.draft import (
    FAMILY,
    INTERVAL,
    MANIPULATED,
    MULTIPLICITY,
    NOISE_FLOOR,
    PAIRING,
    SEEDS,
    STOPPING,
    ProposalDraft,
)
from workbench.experiments.floors import MEASURE
from workbench.registry.proposal import changes_data

MOST_SEEDS = 100
"""Of an arm, as the form allows."""
FEWEST = 2
"""Seeds an arm below which no interval exists."""


def rule_faults(draft: ProposalDraft, *, measure: str = MEASURE) -> Iterator[Fault]:
    """Yield every part of the decision rule that no rule can have, or not with the others.

    Args:
        draft: The proposal.
        measure: The command that measures a noise floor for it.
    """
    unsound = list(_looks(draft))
    yield from unsound
    if not unsound:
        yield from _end(draft)
        yield from _exact(draft)
    yield from _anytime(draft)
    yield from _pairing(draft)
    yield from _calibrated(draft, measure)
    yield from _family(draft)


def stopping_text(looks: Sequence[int]) -> str:
    """Return the stopping rule of these looks, as the form has it."""
    return f"{'fixed' if len(looks) == 1 else 'group'}({','.join(map(str, looks))})"


def most_seeds(interval: IntervalKind) -> int:
    """Return the most seeds an arm that the form and an interval allow."""
    if interval != "perm_exact":
        return MOST_SEEDS
    return max(n for n in range(FEWEST, MOST_SEEDS) if num_splits(n, n) <= MOST_SPLITS)


def _looks(draft: ProposalDraft) -> Iterator[Fault]:
    looks = draft.looks
    if not looks:
        return
    text = f"{draft.stopping}({','.join(map(str, looks))})"
    sound = sorted({n for n in looks if n >= FEWEST})
    remedy = f"write {stopping_text(sound)}" if sound else "write fixed(3) and design.seeds: 3"
    if draft.stopping == "fixed" and not sound:
        yield draft.document.fault(
            STOPPING,
            f"{text} gives {_interval(draft)} no interval: no outcome but void can be reached",
            "write fixed(3) and design.seeds: 3, or more",
        )
    elif min(looks) < FEWEST:
        message = f"{text} looks at {_seeds(min(looks))}, which {_interval(draft)} cannot judge"
        yield draft.document.fault(STOPPING, message, remedy)
    elif list(looks) != sound:
        yield draft.document.fault(STOPPING, f"the looks of {text} do not rise", remedy)
    elif draft.stopping == "group" and len(looks) == 1:
        yield draft.document.fault(STOPPING, f"{text} looks only once", remedy)


def _end(draft: ProposalDraft) -> Iterator[Fault]:
    """Compare where the looks end with the registered seeds."""
    seeds = draft.seeds
    if seeds is None:
        return
    at = f"design.seeds {seeds} (line {draft.document.line(SEEDS)})"
    if not draft.looks:
        if seeds < FEWEST:
            message = f"design.seeds {seeds} gives {_interval(draft)} no interval"
            yield draft.document.fault(SEEDS, message, "write 3 or more")
        return
    last = draft.looks[-1]
    if last == seeds:
        return
    text = stopping_text(draft.looks)
    kept = [n for n in draft.looks if n < seeds]
    wanted = stopping_text([*kept, seeds]) if draft.stopping == "group" else f"fixed({seeds})"
    remedy = f"write seeds: {last}" if seeds < FEWEST else f"write {wanted}, or seeds: {last}"
    message = f"{text} is not {at}" if draft.stopping == "fixed" else f"{text} does not end at {at}"
    yield draft.document.fault(STOPPING, message, remedy)


def _exact(draft: ProposalDraft) -> Iterator[Fault]:
    """Refuse permutation tests of too many seeds, and of too few for any p-value to be small."""
    looks = draft.looks
    if draft.interval != "perm_exact" or not looks:
        return
    most = most_seeds("perm_exact")
    if looks[-1] > most:
        yield draft.document.fault(
            INTERVAL,
            f"perm_exact at {_seeds(looks[-1])} an arm has too many splits to enumerate them",
            f"write interval: welch_t, which is as good there, or end at {most} seeds",
        )
        return
    level = _level(draft)
    if level is None or smallest_p(looks[0], looks[0]) <= level * (1 + 1e-9):
        return
    first = smallest_p(looks[0], looks[0])
    sizes = range(looks[0], most + 1)
    able = next((n for n in sizes if smallest_p(n, n) <= level * (1 + 1e-9)), None)
    remedy = "write interval: welch_t"
    if able is not None:
        later = [able, *(n for n in looks if n > able)]
        more = f" and seeds: {later[-1]}" if later[-1] != looks[-1] else ""
        remedy = f"write {stopping_text(later)}{more}, or interval: welch_t"
    yield draft.document.fault(
        STOPPING,
        f"perm_exact at {_seeds(looks[0])} an arm cannot reach alpha {level:.3g}"
        f"{_share(draft)}: its smallest p is {first:.3g}",
        remedy,
    )


def _anytime(draft: ProposalDraft) -> Iterator[Fault]:
    if draft.stopping != "anytime":
        return
    if draft.interval not in (None, "paired_t"):
        yield draft.document.fault(
            STOPPING,
            f"anytime with {draft.interval}: its evidence is of the differences by seed index",
            "write interval: paired_t and pairing: seed_index (arms that share nothing but the "
            "index may be paired), or looks like group(3,5,8)",
        )
        return
    level, seeds = _level(draft), draft.seeds
    if level is None or seeds is None or not FEWEST <= seeds <= MOST_SEEDS:
        return
    if math.isfinite(critical_t(seeds, level)):
        return
    sizes = range(seeds, MOST_SEEDS + 1)
    able = next((n for n in sizes if math.isfinite(critical_t(n, level))), None)
    yield draft.document.fault(
        SEEDS,
        f"anytime can show nothing with {_seeds(seeds)} an arm at alpha {level:.3g}{_share(draft)}",
        f"write seeds: {able} or more" if able else "raise alpha",
    )


def _pairing(draft: ProposalDraft) -> Iterator[Fault]:
    interval, pairing = draft.interval, draft.pairing or "none"
    if interval is None or pairing not in ("none", "seed_index"):
        return
    if interval == "paired_t" and pairing == "none":
        yield draft.document.fault(
            PAIRING,
            "paired_t compares the arms' runs of one seed, but design.pairing is none",
            "write pairing: seed_index under design, or interval: welch_t",
        )
    # With anytime, the fault of the stopping rule already says what to write.
    if interval != "paired_t" and pairing == "seed_index" and draft.stopping != "anytime":
        yield draft.document.fault(
            PAIRING,
            f"pairing: seed_index is promised, but {interval} compares no pairs",
            "write pairing: none, or interval: paired_t",
        )


def _calibrated(draft: ProposalDraft, measure: str) -> Iterator[Fault]:
    document = draft.document
    if draft.interval is None:
        return
    if draft.interval != "calibrated_t":
        if draft.noise_floor:
            yield document.fault(
                NOISE_FLOOR,
                f"noise_floor is given, but {draft.interval} takes its spread from the arms",
                "remove noise_floor, or write interval: calibrated_t",
            )
        return
    data = [key for key in draft.manipulated or () if changes_data(key)]
    if data:
        yield document.fault(
            INTERVAL,
            f"calibrated_t takes one spread for both arms, but {', '.join(data)} (line "
            f"{document.line(MANIPULATED)}) gives them other data, and spread differs by mixture",
            "write interval: welch_t and remove noise_floor",
        )
    elif document.get(NOISE_FLOOR) in (None, ""):
        yield document.fault(
            INTERVAL,
            "calibrated_t needs a noise floor of the control arm at full scale",
            f"{measure} measures one and prints its leaf hash for noise_floor:, or write interval: "
            "welch_t",
        )


def _family(draft: ProposalDraft) -> Iterator[Fault]:
    document = draft.document
    members = draft.claims[1:]
    if members and draft.multiplicity == "none":
        yield document.fault(
            MULTIPLICITY,
            f"{len(draft.claims)} claims are decided by the same runs, and nothing corrects for it",
            "write multiplicity: holm",
        )
    if not members and draft.multiplicity == "holm" and not document.get(FAMILY):
        yield document.fault(
            MULTIPLICITY,
            "holm corrects several claims, and there is no decision.family",
            "write multiplicity: none, or add the other claims as decision.family",
        )
    stated = [h.id for h in draft.hypotheses if h.id]
    for place, claim in enumerate(draft.claims):
        earlier = [other.hypothesis for other in draft.claims[:place]]
        if claim.hypothesis is None or claim.hypothesis not in earlier:
            continue
        named = [other.hypothesis for other in draft.claims]
        free = [name for name in stated if name not in named]
        yield document.fault(
            claim.hypothesis_path,
            f"{claim.hypothesis} is decided twice: a verdict has one outcome of a hypothesis",
            f"write hypothesis: {free[0]}" if free else "state a hypothesis of its own, like H2",
        )


def _level(draft: ProposalDraft) -> float | None:
    """Return the share of α that a claim has at one look; None where it is not known."""
    alpha = draft.alpha
    if alpha is None or not 0 < alpha < 0.5:
        return None
    return alpha / max(1, len(draft.looks)) / len(draft.claims)


def _share(draft: ProposalDraft) -> str:
    parts = [f"{len(draft.looks)} looks"] if len(draft.looks) > 1 else []
    parts += [f"{len(draft.claims)} claims"] if len(draft.claims) > 1 else []
    return f" (its share of {draft.alpha:g} for {' and '.join(parts)})" if parts else ""


def _interval(draft: ProposalDraft) -> str:
    return draft.interval or "any rule"


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"
