"""What the rule decided, why, and what else was seen when it did."""

import re
from collections.abc import Sequence

from workbench.registry.entries import ClaimResult, Verdict
from workbench.reports.audit import audit_experiment
from workbench.reports.blocks import (
    Block,
    Heading,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
    lines,
    picture,
    say,
    section,
    table,
)
from workbench.reports.facts import Cited, ExperimentFacts
from workbench.reports.figures.verdict import claim_figure
from workbench.reports.findings import AuditFinding
from workbench.reports.narrative import Line, clause, line, listed, sentence
from workbench.reports.quantities import (
    MINUS,
    MISSING,
    count,
    decimals_for,
    number,
    signed,
    significant,
    unit_of,
    with_unit,
)
from workbench.reports.rulings import Ruling, Sighting, explained, rulings_of, verdict_explained
from workbench.reports.status import next_look, sample_sizes
from workbench.reports.wording import INTERVALS, bound_error, level


def verdict_section(facts: ExperimentFacts) -> Section:
    """Return the verdict with everything it rests on, recomputed on the spot."""
    title = "Verdict"
    if facts.hides(Verdict.kind):
        text = "There is one, and its content is hidden: see the hidden entries."
        return section("verdict", title, [say(text)])
    rulings = rulings_of(facts)
    if facts.verdict is None:
        return section("verdict", title, _undecided(facts, rulings))
    verdict = facts.verdict
    findings = audit_experiment(facts)
    told = _explanation(facts, verdict, rulings)
    blocks: list[Block | None] = [
        say(_ruling(facts, verdict.value, with_reasons=told is None), verdict.sources),
        told,
        _figure(rulings[0], verdict) if rulings else None,
        lines(*_rule_lines(verdict)),
        *_looks(rulings[:1]),
        _values(verdict),
        *_family(facts, rulings),
        _secondary(verdict),
        _guardrails(verdict),
        Heading(text="Computed again by this chronicle"),
        say(_audited(findings), verdict.sources),
        _audit_table(findings),
    ]
    return section("verdict", title, blocks)


def _undecided(facts: ExperimentFacts, rulings: Sequence[Ruling]) -> list[Block | None]:
    """Return what the looks have shown so far; that there is nothing yet where there were none."""
    if not rulings:
        nothing = "There is none yet." if facts.confirmatory else "Exploratory work has none."
        return [say(nothing)]
    text = f"There is none yet: {next_look(facts.looks[-1].value)}."
    found: list[Block | None] = [say(text, facts.looks[-1].sources)]
    for place, ruling in enumerate(rulings):
        found += [_figure(ruling, None, place=place), *_looks([ruling])]
    return found


def _ruling(facts: ExperimentFacts, body: Verdict, *, with_reasons: bool) -> str:
    exploratory = body.mode == "exploratory" or not facts.confirmatory
    mark = "Exploratory verdict, which supports nothing: " if exploratory else ""
    words = {
        "supported": f"{body.hypothesis} is supported.",
        "refuted": f"{body.hypothesis} is refuted.",
        "inconclusive": f"Inconclusive: the data neither support nor refute {body.hypothesis}.",
        "void": f"Void: {body.hypothesis} was not tested.",
    }
    reasons = [sentence(reason) for reason in body.void_reasons if with_reasons]
    return " ".join([mark + words[body.outcome], *reasons])


def _explanation(
    facts: ExperimentFacts, verdict: Cited[Verdict], rulings: Sequence[Ruling]
) -> Paragraph | None:
    """Return three sentences: what was claimed, what was seen, what would have changed it."""
    body = verdict.value
    told = verdict_explained(body, rulings[0]) if rulings else None
    if told is None or facts.registration is None:
        return None
    seen = rulings[0].last.sources
    return Paragraph(
        clauses=(
            clause(_set(told.claimed), facts.registration.sources),
            clause(_set(told.seen), (*seen, *(s for s in verdict.sources if s not in seen))),
            clause(_set(told.otherwise), verdict.sources),
        )
    )


def _set(text: str) -> str:
    """Return a sentence of the analysis with true minus signs."""
    return re.sub(r"(?<![\w.])-(?=\d)", MINUS, text)


def _figure(ruling: Ruling, verdict: Cited[Verdict] | None, *, place: int = 0) -> Picture | None:
    """Return a claim's figure; the first claim's tells the verdict after guardrails."""
    first = place == 0
    outcome = verdict.value.outcome if verdict and first else ruling.result.outcome
    return picture(
        claim_figure(
            ruling,
            # Not the hypothesis: whatever a look calls it, this is the name of a file.
            name="verdict" if first else f"verdict-{place + 1}",
            said=f"Verdict {outcome}"
            if verdict and first
            else f"So far {outcome}"
            if verdict is None
            else f"{ruling.result.hypothesis} {outcome}",
            sources=verdict.sources if verdict else (),
        )
    )


def _rule_lines(verdict: Cited[Verdict]) -> list[Line]:
    body, sources = verdict.value, verdict.sources
    unit = unit_of(body.metric)
    sizes = listed([f"{n} {arm}" for arm, n in sample_sizes(body).items()])
    places = decimals_for([body.estimate, body.lower, body.upper])
    freedom = number(body.degrees_of_freedom, 2)
    interval = (
        f"{signed(body.lower, places)} to {signed(body.upper, places)}, two one-sided "
        f"{level(bound_error(body))} bounds"
        + (f", {freedom} degrees of freedom" if body.degrees_of_freedom is not None else "")
    )
    stopping = f", {body.stopping}" if body.stopping else ""
    used = body.results[0].interval if body.results else body.interval
    fallback = f"; the bounds are {INTERVALS.get(used, used)}" if used != body.interval else ""
    error = f"α\u00a0=\u00a0{body.alpha:g}"
    interval_words = INTERVALS.get(body.interval, body.interval)
    estimated = (
        ("Estimate", with_unit(signed(body.estimate, places), body.metric)),
        ("Interval", interval),
    )
    told = [
        (
            "Rule",
            f"{body.claim} by {interval_words}{stopping}, {error}{fallback}",
        ),
        (
            "Measure",
            f"{body.metric}{f' in {unit}' if unit else ''}, to {body.direction}, sealed test",
        ),
        *(estimated if body.estimate is not None else ()),
        ("n", f"{sizes} runs"),
        ("Then", sentence(body.action)),
    ]
    return [line(label, clause(text, sources)) for label, text in told]


def _looks(rulings: Sequence[Ruling]) -> list[Block | None]:
    """Return a table of the looks at each claim; nothing where the rule looked once."""
    return [_look_table(ruling) for ruling in rulings if ruling.last.state]


def _look_table(ruling: Ruling) -> Table | None:
    found = [_numbers(sighting.result) for sighting in ruling.sightings]
    rows = [
        Row(
            cells=(
                str(sighting.number),
                str(sighting.num_seeds),
                *cells,
                _says(ruling, sighting),
                _then(sighting),
            ),
            sources=sighting.sources,
            tone="strong" if sighting is ruling.last and sighting.state != "go_on" else "",
        )
        for sighting, cells in zip(ruling.sightings, found, strict=True)
    ]
    unit = unit_of(ruling.result.metric)
    return table(
        f"Looks at {ruling.result.hypothesis}, {ruling.result.claim} on {ruling.result.metric}"
        f"{f' in {unit}' if unit else ''}; α is of each bound at that look.",
        ["Look", "Seeds an arm", "Improvement", "Lower", "Upper", "α", "Rule says", "Then"],
        rows,
        numeric=(0, 1, 2, 3, 4, 5),
    )


def _numbers(result: ClaimResult) -> tuple[str, str, str, str]:
    places = decimals_for([result.estimate, result.lower, result.upper])
    numbers = (result.estimate, result.lower, result.upper)
    estimate, lower, upper = (signed(value, places) for value in numbers)
    return estimate, lower, upper, significant(result.alpha, 3)


def _says(ruling: Ruling, sighting: Sighting) -> str:
    """Return what the rule says at a look; that a claim was decided before where it was."""
    outcome = sighting.result.outcome
    first = next(
        (one for one in ruling.sightings if one.result.outcome in ("supported", "refuted")),
        sighting,
    )
    return outcome if first.number >= sighting.number else f"{outcome} since look {first.number}"


def _then(sighting: Sighting) -> str:
    if sighting.state == "go_on":
        return f"on to {sighting.next_seeds} seeds"
    return {"stop": "stop", "final": "the last look"}.get(sighting.state, MISSING)


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


def _family(facts: ExperimentFacts, rulings: Sequence[Ruling]) -> list[Block | None]:
    """Return the claims that were decided with the first one; nothing where there are none."""
    if len(rulings) < 2 or facts.verdict is None:
        return []
    blocks: list[Block | None] = [Heading(text="The family of claims"), _family_table(rulings)]
    for place, ruling in enumerate(rulings[1:], start=1):
        told = explained(ruling)
        if told is not None and facts.registration is not None:
            seen = (*ruling.last.sources, *facts.verdict.sources)
            sources = tuple({source.sequence: source for source in seen}.values())
            name = f"{ruling.result.hypothesis}: "
            blocks.append(
                Paragraph(
                    clauses=(
                        clause(name + _set(told.claimed), facts.registration.sources),
                        clause(_set(told.seen), sources),
                        clause(_set(told.otherwise), sources),
                    )
                )
            )
        blocks += [_figure(ruling, facts.verdict, place=place), *_looks([ruling])]
    return blocks


def _family_table(rulings: Sequence[Ruling]) -> Table | None:
    return table(
        "What the rule says of each claim, before guardrails; α is of each bound, by Holm.",
        ["Claim", "Rule", "Measure", "Improvement", "Lower", "Upper", "α", "Rule says"],
        [
            Row(
                cells=(
                    ruling.result.hypothesis,
                    ruling.result.claim,
                    ruling.result.metric,
                    *_numbers(ruling.result),
                    ruling.result.outcome,
                ),
                sources=ruling.last.sources,
            )
            for ruling in rulings
        ],
        numeric=(3, 4, 5, 6),
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
