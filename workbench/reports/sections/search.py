"""The whole search: what was declared, what ran, and who was promoted by which rule."""

from collections.abc import Sequence

from workbench.registry.entries import Candidate, KeyChange, Promotion, ProxyRun, Trial
from workbench.reports.accounting import SweepAccounting, sweep_accounting
from workbench.reports.blocks import (
    Block,
    Folded,
    Heading,
    Row,
    Section,
    Table,
    Tally,
    picture,
    say,
    section,
    table,
)
from workbench.reports.documents import registered_recipe
from workbench.reports.drawn import drawn_in_words
from workbench.reports.facts import Cited, ExperimentFacts, SweepFacts, merged_sources
from workbench.reports.figures.sweep import numeric_leaves, sweep_scatter
from workbench.reports.narrative import sentence
from workbench.reports.quantities import (
    MISSING,
    count,
    duration,
    even,
    number,
    plain,
    scaled,
    signed,
    unit_of,
)
from workbench.reports.screening import screening_sentence
from workbench.reports.shortcomings import control_trial_value

LONG = 24
"""Rows above which a table is folded on screen."""


def search_section(facts: ExperimentFacts) -> Section:
    """Return sweep, ladder and promotion."""
    blocks: list[Block | None] = []
    if facts.sweep:
        blocks += _sweep(facts, facts.sweep)
    elif facts.confirmatory:
        blocks.append(say("The registered sweep has not begun."))
    blocks += _ladder(facts)
    blocks += _promotion(facts.promotion)
    if facts.exploratory:
        text = (
            "Run outside any registration. These trials were never candidates for promotion and "
            "support no verdict."
        )
        blocks += [Heading(text="Exploratory trials"), say(text)]
        blocks += _sweep(facts, facts.exploratory)
    return section("sweep", "Sweep accounting", blocks or [say("No sweep has run.")])


def _sweep(facts: ExperimentFacts, sweep: SweepFacts) -> list[Block | None]:
    told = sweep_accounting(sweep)
    confirmatory = sweep.mode == "confirmatory"
    recipe = registered_recipe(facts.registration.value.recipe) if facts.registration else None
    control = control_trial_value(facts) if confirmatory else None
    chosen = facts.promotion.value.chosen if facts.promotion and confirmatory else "none"
    trials = _trials(sweep, chosen)
    folded = trials and Folded(
        summary=f"All {count(len(sweep.trials), 'trial')} with the values tried", block=trials
    )
    return [
        _tally(told, sweep),
        *(say(sentence(text), merged_sources(sweep.ends)) for text in told.disagreements),
        _drawn(sweep),
        picture(sweep_scatter(sweep, recipe=recipe, control=control, promoted=chosen)),
        trials if len(sweep.trials) <= LONG else folded,
    ]


def _drawn(sweep: SweepFacts) -> Block | None:
    """Return what completed trials drew; nothing of older ones, which do not say."""
    completed = [t for t in sweep.trials if t.value.state == "completed" and t.value.drawn]
    told = drawn_in_words(trial.value.drawn or {} for trial in completed)
    if not told:
        return None
    text = f"{count(len(completed), 'completed trial')} drew {told}."
    return say(text, merged_sources(completed), quiet=True)


def _tally(told: SweepAccounting, sweep: SweepFacts) -> Tally:
    items = []
    if told.declared:
        items.append((count(told.declared.value), "declared", told.declared.sources))
    items.append((count(told.ran), "ran", merged_sources(sweep.trials)))
    items += [(count(cited.value), state, cited.sources) for state, cited in told.counts]
    if told.declared and told.ran < told.declared.value:
        left = told.declared.value - told.ran
        items.append((count(left), "not run", merged_sources(sweep.ends or sweep.starts)))
    return Tally(items=tuple(items))


def _trials(sweep: SweepFacts, chosen: str) -> Table | None:
    keys = list(dict.fromkeys(k for t in sweep.trials for k in numeric_leaves(t.value.params)))
    metric = sweep.trials[0].value.metric if sweep.trials else ""
    unit = unit_of(metric)
    names = [name.replace(".", ".\u200b") for name in _short(keys)]
    return table(
        f"Values tried. {metric}{f' in {unit}' if unit else ''} on validation text at the last "
        "step; only completed trials have one."
        + (" Columns are keys of the run configuration." if len(keys) > 1 else ""),
        ["Trial", metric, *names, "Time", "State"],
        [_trial_row(trial, keys, chosen) for trial in sweep.trials],
        numeric=range(3 + len(keys)),
    )


def _short(keys: Sequence[str]) -> list[str]:
    """Keep the last part of each key where that still tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return [
        name if last.count(name) == 1 and name != "weight" else key
        for name, key in zip(last, keys, strict=True)
    ]


def _trial_row(trial: Cited[Trial], keys: Sequence[str], chosen: str) -> Row:
    body = trial.value
    leaves = numeric_leaves(body.params)
    words = {key: plain(value) for key, value in body.params.items() if isinstance(value, str)}
    suffix = chosen.rpartition("-")[2]
    promoted = suffix.isdigit() and int(suffix) == body.number
    tone = "strong" if promoted else "" if body.state == "completed" else "muted"
    state = "completed, promoted" if promoted else body.state
    why = body.reason or ("; ".join(f"{k} {v}" for k, v in words.items()))
    return Row(
        cells=(
            str(body.number),
            number(body.value) if body.state == "completed" else MISSING,
            *(even(leaves.get(key)) for key in keys),
            duration(body.device_seconds),
            f"{state}: {why}" if why else state,
        ),
        sources=trial.sources,
        tone=tone,
    )


def _ladder(facts: ExperimentFacts) -> list[Block | None]:
    if not facts.proxy_runs:
        return []
    metric = facts.proxy_runs[0].value.metric
    unit = unit_of(metric)
    rows = table(
        f"Candidates and control on fresh seeds, {metric}{f' in {unit}' if unit else ''}.",
        ["Candidate", "Scale", "Parameters", "Seed", "State", metric, "Tokens", "Device time"],
        [_ladder_row(run) for run in facts.proxy_runs],
        numeric=(2, 3, 5, 6, 7),
    )
    text = f"{count(len(facts.proxy_runs), 'proxy run')} on seeds that the sweep never saw."
    summary = f"All {count(len(facts.proxy_runs), 'proxy run')} of the ladder"
    return [
        Heading(text="Ladder"),
        say(text, merged_sources(facts.proxy_runs)),
        Folded(summary=summary, block=rows) if rows else None,
    ]


def _ladder_row(run: Cited[ProxyRun]) -> Row:
    body = run.value
    return Row(
        cells=(
            body.candidate,
            body.scale,
            scaled(body.parameters),
            str(body.seed_index),
            body.state,
            number(body.value),
            scaled(body.tokens),
            duration(body.device_seconds),
        ),
        sources=run.sources,
        tone="" if body.state == "completed" else "muted",
    )


def _promotion(promotion: Cited[Promotion] | None) -> list[Block | None]:
    if promotion is None:
        return []
    body = promotion.value
    screened = screening_sentence(body.candidates)
    chosen = "No candidate was promoted." if body.chosen == "none" else f"Promoted: {body.chosen}."
    return [
        Heading(text="Promotion"),
        say(f"{chosen} {sentence(body.reason)}".strip(), promotion.sources),
        say(f"Rule: {sentence(body.rule)}", promotion.sources),
        table(
            "Candidates. “In the sweep” is the figure that they were picked by and is optimistic; "
            "the re-run mean is not. Improvement over the control with two one-sided bounds.",
            [
                "Candidate",
                "In the sweep",
                "Re-run mean",
                "SD",
                "n",
                "Improvement",
                "Bounds",
                "Note",
            ],
            [_candidate_row(c, body.chosen, promotion) for c in body.candidates],
            numeric=(1, 2, 3, 4, 5, 6),
        ),
        say(screened, promotion.sources, quiet=True) if screened else None,
        table(
            "Keys that differ between proxy and full scale.",
            ["Key", "Proxy", "Full scale", "Explained by"],
            [_change_row(change, promotion) for change in body.changes],
            numeric=(1, 2),
        ),
    ]


def _candidate_row(candidate: Candidate, chosen: str, promotion: Cited[Promotion]) -> Row:
    bounds = f"{signed(candidate.lower)} to {signed(candidate.upper)}"
    note = candidate.reason or ("promoted" if candidate.name == chosen else "")
    if not candidate.feasible:
        note = f"not feasible: {candidate.reason}" if candidate.reason else "not feasible"
    return Row(
        cells=(
            candidate.name,
            number(candidate.sweep_value),
            number(candidate.rerun_mean),
            number(candidate.rerun_sd),
            str(candidate.rerun_n),
            signed(candidate.improvement),
            bounds if candidate.lower is not None else MISSING,
            note or MISSING,
        ),
        sources=promotion.sources,
        tone="strong" if candidate.name == chosen else "" if candidate.feasible else "muted",
    )


def _change_row(change: KeyChange, promotion: Cited[Promotion]) -> Row:
    return Row(
        cells=(change.key, plain(change.proxy), plain(change.full), change.explained_by),
        sources=promotion.sources,
        tone="grave" if change.deviation else "",
    )
