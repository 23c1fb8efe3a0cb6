"""What a proposal may say but its author will probably regret: warnings, never refusals."""

import math
from collections.abc import Iterator

from workbench.errors import Fault
from workbench.experiments.draft import (
    CLAIM,
    EXPECTED,
    SEEDS,
    ClaimDraft,
    FullDraft,
    ProposalDraft,
)
from workbench.experiments.noise import Noise
from workbench.proxies.recipe import Recipe
from workbench.proxies.recipe_faults import training_flops

FEWEST_SEEDS = 3
"""Below it, the form's own words advise against the interval."""
MARGIN_IN_SPREADS = 2
"""Spreads between seeds below which a margin asks about less than what a change of seed does."""
NO_PILOTS = ("none", "no", "nothing", "keine")


def about_proposal(draft: ProposalDraft) -> Iterator[Fault]:
    """Yield doubts about the proposal by itself."""
    yield from _undecided(draft)
    yield from _expectation(draft)
    yield from _foreknowledge(draft)
    yield from _seeds(draft)
    yield from _alpha(draft)


def about_sweep(draft: ProposalDraft, recipe: Recipe) -> Iterator[Fault]:
    """Yield doubts about the registered search."""
    document = draft.document
    trials = draft.budget_trials
    if trials is not None and trials <= len(recipe.space):
        yield document.fault(
            ("sweep", "budget_trials"),
            f"{trials} trials search {len(recipe.space)} dimensions of the recipe's space",
            f"write at least {4 * len(recipe.space)}",
        )
    if draft.pruning != "median":
        return
    if trials is not None and draft.startup_trials is not None and draft.startup_trials >= trials:
        yield document.fault(
            ("sweep", "pruning", "startup_trials"),
            f"startup_trials {draft.startup_trials} of {trials} trials: none can be pruned",
            "write a smaller number, or rule: none",
        )
    first = recipe.at_scale(recipe.scales[0].name)
    evaluations = math.ceil(first.steps / first.evaluation.every)
    warmup = draft.warmup_evaluations
    if warmup is not None and warmup >= evaluations - 1:
        yield document.fault(
            ("sweep", "pruning", "warmup_evaluations"),
            f"a trial is evaluated {evaluations} times, of which {warmup} are warm-up and one is "
            "its end: none can be pruned",
            "evaluate more often in the recipe (base.evaluation.every), or write rule: none",
        )


def about_full(draft: ProposalDraft, recipe: Recipe, full: FullDraft) -> Iterator[Fault]:
    """Yield doubts about the step from the ladder to full scale."""
    config = full.config(recipe.base)
    scales = [name for name in draft.scales or () if name in [s.name for s in recipe.scales]]
    if config is None or not scales:
        return
    largest = max(training_flops(recipe.at_scale(name)) for name in scales)
    ratio = training_flops(config) / largest
    if ratio <= 1:
        yield full.document.fault(
            ("overrides",),
            f"full scale takes {ratio:.2g} × the compute of the largest proxy scale: the forecast "
            "predicts nothing that the ladder has not seen",
            "raise model or steps in full.yaml, or lower the recipe's scales",
        )


def about_noise(draft: ProposalDraft, measured: Noise | None) -> Iterator[Fault]:
    """Yield doubts about a margin or an effect that is no larger than what a change of seed does.

    Args:
        draft: The proposal.
        measured: What this lab measured of the primary metric.
    """
    if measured is None or not measured.is_known:
        return
    floor = MARGIN_IN_SPREADS * measured.sd
    tail = f"is below twice the spread between seeds, {floor:.2g} ({measured.sentence()})"
    decided = draft.decided()
    worth = decided.minimum_effect if decided else None
    if decided is not None and worth is not None and 0 < worth < floor:
        yield draft.document.fault(
            (*decided.path, "minimum_effect"),
            f"minimum_effect {worth:g} {tail}: a change of seed does as much",
            f"write {floor:.2g} or more, or repeat less noisy runs",
        )
    if draft.margin is not None and draft.margin != worth and 0 < draft.margin < floor:
        yield draft.document.fault(
            CLAIM, f"δ {draft.margin:g} {tail}", f"write {floor:.2g} or more"
        )


def _undecided(draft: ProposalDraft) -> Iterator[Fault]:
    named = [claim.hypothesis for claim in draft.claims if claim.hypothesis]
    for h in draft.hypotheses:
        if h.id and named and h.id not in named:
            message = f"{h.id} is never decided: the decision rule is for {', '.join(named)}"
            yield draft.document.fault((*h.path, "id"), message, "it will be shown as undecided")


def _expectation(draft: ProposalDraft) -> Iterator[Fault]:
    for claim in draft.claims:
        yield from _small_margin(draft, claim)
    decided = draft.decided()
    margin, expected = draft.margin, draft.expected_improvement
    if decided is None or decided.minimum_effect is None or margin is None or expected is None:
        return
    worth = decided.minimum_effect
    if draft.claim_kind == "superior" and expected < worth:
        yield draft.document.fault(
            EXPECTED,
            f"you expect an improvement of {expected:g}, less than the {worth:g} that you call "
            "worth acting on: by your own guess the claim is refuted",
            "claim what you expect, or expect what you claim",
        )
    if draft.claim_kind == "superior_by" and expected <= margin:
        yield draft.document.fault(
            EXPECTED,
            f"you expect an improvement of {expected:g}, no more than the margin {margin:g} that "
            "superior_by must exceed: support is unlikely",
            "claim superior(δ), or lower the margin",
        )


def _small_margin(draft: ProposalDraft, claim: ClaimDraft) -> Iterator[Fault]:
    decided, margin = draft.decided(claim), claim.margin
    worth = decided.minimum_effect if decided else None
    if decided is None or worth is None or margin is None or not 0 <= margin < worth:
        return
    if claim.kind == "superior_by":
        yield draft.document.fault(
            claim.path,
            f"{claim.text} can be supported by an improvement smaller than "
            f"{decided.id}.minimum_effect {worth:g}",
            f"write superior_by({worth:g})",
        )
    if claim.kind == "superior":
        yield draft.document.fault(
            claim.path,
            f"{claim.text} is not refuted by an effect between {margin:g} and "
            f"{decided.id}.minimum_effect {worth:g}, too small to act on",
            f"write superior({worth:g})",
        )


def _foreknowledge(draft: ProposalDraft) -> Iterator[Fault]:
    path = ("foreknowledge",)
    pilots = (draft.pilots_seen or "").strip().rstrip(".").lower()
    if draft.foreknowledge == "these_outcomes":
        message = "these outcomes are known already: readers will take the verdict as exploratory"
        yield draft.document.fault(path, message, "run it with --exploratory, or ask what is open")
    if draft.foreknowledge == "pilot_outcomes" and pilots in NO_PILOTS:
        message = f"foreknowledge is of pilots, but pilots_seen says {draft.pilots_seen!r}"
        yield draft.document.fault(("pilots_seen",), message, "name the pilots")


def _seeds(draft: ProposalDraft) -> Iterator[Fault]:
    if draft.seeds is not None and draft.seeds < FEWEST_SEEDS:
        runs = "1 run" if draft.seeds == 1 else f"{draft.seeds} runs"
        yield draft.document.fault(
            SEEDS,
            f"seeds {draft.seeds}: an arm's spread is estimated from {runs}, so that the interval "
            "is very wide or there is none",
            f"write {FEWEST_SEEDS} or more",
        )


def _alpha(draft: ProposalDraft) -> Iterator[Fault]:
    if draft.alpha is not None and draft.alpha > 0.1:
        times = f"1 time in {1 / draft.alpha:.0f}"
        message = f"alpha {draft.alpha:g}: a claim that is just false is supported {times}"
        yield draft.document.fault(("decision", "alpha"), message, "0.05 is usual")
