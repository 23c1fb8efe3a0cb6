"""What was predicted, what the rule decided, what did not work, and what it all cost."""

from workbench.registry.entries import Verdict
from workbench.reports.accounting import Cost, bill
from workbench.reports.audit import AuditFinding, audit_experiment, forecasts_after_runs
from workbench.reports.blocks import (
    Block,
    Heading,
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
from workbench.reports.facts import Cited, ExperimentFacts, Source
from workbench.reports.figures.costs import WORDS, cost_bars, items_in_words
from workbench.reports.figures.forecast import forecast_intervals, ladder
from workbench.reports.figures.verdict import verdict_intervals
from workbench.reports.narrative import Line, clause, line, listed, sentence
from workbench.reports.quantities import (
    MISSING,
    count,
    decimals_for,
    device_time,
    duration,
    number,
    percent,
    scaled,
    signed,
    significant,
    unit_of,
    with_unit,
)
from workbench.reports.shortcomings import negative_results
from workbench.reports.status import effect_sentence, sample_sizes, score_of, uncounted_clauses


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


def verdict_section(facts: ExperimentFacts) -> Section:
    """Return the verdict with everything it rests on, recomputed on the spot."""
    if facts.verdict is None:
        text = "There is none yet." if facts.confirmatory else "Exploratory work has none."
        if facts.hides(Verdict.kind):
            text = "There is one, and its content is hidden: see the hidden entries."
        return section("verdict", "Verdict", [say(text)])
    verdict = facts.verdict
    body = verdict.value
    blocks: list[Block | None] = [
        say(_ruling(body, confirmatory=facts.confirmatory), verdict.sources),
        picture(verdict_intervals(verdict, facts.proposal)),
        lines(*_rule_lines(verdict)),
        _values(verdict),
        _secondary(verdict),
        _guardrails(verdict),
        Heading(text="Computed again by this chronicle"),
        say(_audited(audit_experiment(facts)), verdict.sources),
        _audit_table(audit_experiment(facts)),
    ]
    return section("verdict", "Verdict", blocks)


def _ruling(body: Verdict, *, confirmatory: bool) -> str:
    exploratory = body.mode == "exploratory" or not confirmatory
    mark = "Exploratory verdict, which supports nothing: " if exploratory else ""
    words = {
        "supported": f"{body.hypothesis} is supported.",
        "refuted": f"{body.hypothesis} is refuted.",
        "inconclusive": f"Inconclusive: the data neither support nor refute {body.hypothesis}.",
        "void": f"Void: {body.hypothesis} was not tested.",
    }
    reasons = " ".join(sentence(reason) for reason in body.void_reasons)
    effect = effect_sentence(body) if body.estimate is not None and body.outcome != "void" else ""
    return " ".join(part for part in (mark + words[body.outcome], reasons, effect) if part)


def _rule_lines(verdict: Cited[Verdict]) -> list[Line]:
    body, sources = verdict.value, verdict.sources
    unit = unit_of(body.metric)
    sizes = listed([f"{n} {arm}" for arm, n in sample_sizes(body).items()])
    places = decimals_for([body.estimate, body.lower, body.upper])
    level = percent(1 - body.alpha, 0)
    interval = (
        f"{signed(body.lower, places)} to {signed(body.upper, places)}, two one-sided {level} "
        f"bounds, {number(body.degrees_of_freedom, 2)} degrees of freedom"
    )
    told = [
        ("Rule", f"{body.claim} by {body.interval.replace('_', ' ')}, α = {body.alpha:g}"),
        (
            "Measure",
            f"{body.metric}{f' in {unit}' if unit else ''}, to {body.direction}, sealed test",
        ),
        ("Estimate", with_unit(signed(body.estimate, places), body.metric)),
        ("Interval", interval),
        ("n", f"{sizes} runs"),
        ("Then", sentence(body.action)),
    ]
    return [line(label, clause(text, sources)) for label, text in told]


def _values(verdict: Cited[Verdict]) -> Table | None:
    body = verdict.value
    indices = sorted({seed.seed_index for seeds in body.values.values() for seed in seeds})
    rows = []
    for arm, seeds in body.values.items():
        found = {seed.seed_index: seed.value for seed in seeds}
        values = [value for value in found.values() if value is not None]
        mean = sum(values) / len(values) if values else None
        cells = [number(found.get(index), 5) for index in indices]
        rows.append(
            Row(cells=(arm, *cells, number(mean, 5), count(len(values))), sources=verdict.sources)
        )
    unit = unit_of(body.metric)
    return table(
        f"{body.metric}{f' in {unit}' if unit else ''} on the sealed test split, by seed.",
        ["Arm", *(f"Seed {index}" for index in indices), "Mean", "n"],
        rows,
        numeric=tuple(range(1, len(indices) + 3)),
    )


def _secondary(verdict: Cited[Verdict]) -> Table | None:
    sign = 1 if verdict.value.direction == "minimize" else -1
    rows = []
    for metric, arms in verdict.value.per_metric.items():
        pair = (arms.get("control"), arms.get("treatment"))
        both = None not in pair
        change = sign * ((pair[0] or 0.0) - (pair[1] or 0.0)) if both else None
        rows.append(
            Row(
                cells=(metric, number(pair[0]), number(pair[1]), signed(change)),
                sources=verdict.sources,
            )
        )
    return table(
        "Other metrics on the sealed test split: means over seeds, no test and no claim.",
        ["Metric", "Control", "Treatment", "Improvement"],
        rows,
        numeric=(1, 2, 3),
    )


def _guardrails(verdict: Cited[Verdict]) -> Table | None:
    rows = [
        Row(
            cells=(
                rail.metric,
                significant(rail.at_most),
                number(rail.treatment_mean),
                "held" if rail.held else "broken",
            ),
            sources=verdict.sources,
            tone="" if rail.held else "grave",
        )
        for rail in verdict.value.guardrails
    ]
    return table(
        "Guardrails: a broken one turns “supported” into “refuted”.",
        ["Metric", "At most", "Treatment", "Result"],
        rows,
        numeric=(1, 2),
    )


def _audited(findings: list[AuditFinding]) -> str:
    wrong = [finding for finding in findings if not finding.passed]
    if wrong:
        return (
            f"{count(len(wrong), 'check')} of {len(findings)} failed. Do not rely on this verdict."
        )
    return (
        f"All {len(findings)} checks passed: the outcome, the interval and every score follow from "
        "the recorded values by the registered rule."
    )


def _audit_table(findings: list[AuditFinding]) -> Table | None:
    return table(
        "Checks of the claim.",
        ["No.", "Check", "Result", "Detail"],
        [
            Row(
                cells=(
                    str(finding.number),
                    finding.check,
                    "passed" if finding.passed else "failed",
                    finding.detail or MISSING,
                ),
                tone="" if finding.passed else "grave",
            )
            for finding in findings
        ],
        numeric=(0,),
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
            scaled(cost.tokens),
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
