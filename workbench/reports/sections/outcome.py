"""What was predicted, what did not work, and what it all cost."""

from workbench.reports.accounting import Cost, bill
from workbench.reports.blocks import (
    Paragraph,
    Row,
    Section,
    Table,
    lines,
    picture,
    say,
    section,
    table,
)
from workbench.reports.checks import forecasts_after_runs
from workbench.reports.facts import ExperimentFacts, Source
from workbench.reports.figures.costs import WORDS, cost_bars, items_in_words
from workbench.reports.figures.forecast import forecast_intervals, ladder
from workbench.reports.narrative import Line, clause, line, listed, sentence
from workbench.reports.quantities import (
    MISSING,
    decimals_for,
    device_time,
    duration,
    number,
    percent,
    scaled,
    signed,
    significant,
    unit_of,
)
from workbench.reports.shortcomings import negative_results
from workbench.reports.status import score_of, uncounted_clauses


def forecast_section(facts: ExperimentFacts) -> Section:
    """Return forecasts, results and scores."""
    title = "Forecast against result"
    if not facts.forecasts:
        return section("forecast", title, [say("No forecast has been recorded.")])
    assumptions: list[Line] = []
    for forecast in facts.forecasts:
        for text in forecast.value.assumptions:
            found = line("Assumes", clause(sentence(text), forecast.sources))
            if found.text not in [other.text for other in assumptions]:
                assumptions.append(found)
    return section(
        "forecast",
        title,
        [
            picture(ladder(facts)),
            picture(forecast_intervals(facts)),
            _forecasts(facts),
            _scores(facts),
            lines(*assumptions),
        ],
    )


def _forecasts(facts: ExperimentFacts) -> Table | None:
    rows = []
    for forecast in facts.forecasts:
        body = forecast.value
        ends = [bound for i in body.intervals for bound in (i.lower, i.upper)]
        places = min(5, decimals_for([body.point, *ends]))
        write = signed if body.target == "improvement" else number
        score = score_of(facts, body.target)
        intervals = {i.level: i for i in body.intervals}
        shown = [
            f"{write(intervals[level].lower, places)} to {write(intervals[level].upper, places)}"
            if level in intervals
            else MISSING
            for level in (50, 80, 95)
        ]
        seen = write(score.value.observed, places) if score else "not yet"
        rows.append(
            Row(
                cells=(body.target, body.method, write(body.point, places), *shown, seen),
                sources=(*forecast.sources, *(score.sources if score else ())),
            )
        )
    metric = facts.forecasts[0].value.metric
    unit = unit_of(metric)
    late = forecasts_after_runs(facts)
    when = "NOT all made before the full-scale runs" if late else "made before any full-scale run"
    ratio = significant(facts.forecasts[0].value.extrapolation_ratio, 3)
    return table(
        f"Forecasts of {metric}{f' in {unit}' if unit else ''}, {when}; "
        f"full scale is {ratio} times the training compute of the largest proxy.",
        ["Target", "Method", "Forecast", "50\u202f%", "80\u202f%", "95\u202f%", "Observed"],
        rows,
        numeric=(2, 3, 4, 5, 6),
    )


def _scores(facts: ExperimentFacts) -> Table | None:
    if facts.verdict is None:
        return None
    rows = []
    for score in facts.verdict.value.scores:
        inside = [f"{key[1:]}\u202f%" for key, covered in score.covered.items() if covered]
        rivals = ", ".join(
            f"{name.replace('_', ' ')} {significant(crps, 3)}"
            for name, crps in score.crps_baselines.items()
        )
        rows.append(
            Row(
                cells=(
                    score.target,
                    signed(score.error),
                    listed(inside) or "none",
                    significant(score.interval_score_80, 3),
                    significant(score.crps, 3),
                    rivals or MISSING,
                    score.grade,
                ),
                sources=facts.verdict.sources,
            )
        )
    return table(
        "Scores, smaller is better: interval score of the 80 % interval, and CRPS beside that of "
        "the baselines. One forecast cannot be calibrated; the grade waits for thirty.",
        ["Target", "Error", "Inside", "Interval score", "CRPS", "Baselines", "Grade"],
        rows,
        numeric=(1, 3, 4),
    )


def negative_section(facts: ExperimentFacts) -> Section:
    """Return what did not work."""
    found = lines(*negative_results(facts))
    shown = " among what is not hidden" if facts.hidden else ""
    nothing = say(f"Nothing has failed, missed or been rejected so far{shown}.")
    return section("negative", "Negative results", [found or nothing])


def cost_section(facts: ExperimentFacts) -> Section:
    """Return what every outcome cost."""
    total = bill(facts)
    if not total.costs:
        text = "What ran is hidden." if facts.uncounted else "Nothing has run."
        return section("cost", "Cost by outcome", [say(text)])
    text = (
        f"{device_time(total.device_seconds)} and {scaled(total.tokens, 'training tokens')}; "
        + listed([f"{percent(total.share(fate))} {words}" for fate, words in WORDS.items()])
        + "."
    )
    rows = [_cost_row(cost, total.device_seconds) for cost in total.costs]
    rows.append(
        Row(
            cells=(
                "total",
                "",
                "",
                scaled(total.tokens),
                duration(total.device_seconds),
                percent(1.0) if total.device_seconds else MISSING,
            ),
            tone="strong",
        )
    )
    return section(
        "cost",
        "Cost by outcome",
        [
            say(text, total.sources),
            Paragraph(clauses=tuple(uncounted_clauses(facts))) if facts.uncounted else None,
            picture(cost_bars(total)),
            table(
                "Device time is the wall time of one process on its device; evaluation of the "
                "sealed split and of this chronicle is not counted.",
                ["Stage", "Outcome", "Items", "Tokens", "Device time", "Share"],
                rows,
                numeric=(2, 3, 4, 5),
            ),
            lines(*_budget(facts, total.device_seconds)),
        ],
    )


def _cost_row(cost: Cost, total: float) -> Row:
    return Row(
        cells=(
            cost.stage,
            cost.outcome,
            items_in_words(cost),
            scaled(cost.tokens) if cost.stage != "noise floor" else MISSING,
            duration(cost.device_seconds),
            percent(cost.device_seconds / total) if total else MISSING,
        ),
        sources=cost.sources,
        tone="grave" if cost.fate == "wasted" else "",
    )


def _budget(facts: ExperimentFacts, spent: float) -> list[Line]:
    if facts.proposal is None or facts.registration is None:
        return []
    cap = facts.proposal.budget_cap_device_hours
    sources: tuple[Source, ...] = facts.registration.sources
    share = percent(spent / 3600 / cap)
    text = f"{share} of the registered cap of {significant(cap)} device-hours."
    return [line("Budget", clause(text, sources))]
