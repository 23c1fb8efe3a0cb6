"""How a promotion and a verdict are told in a terminal."""

from collections.abc import Sequence

from workbench.cli.show import print_table, say, say_wrapped
from workbench.experiments.summaries import LookLine
from workbench.registry.entries import Forecast, Promotion, Verdict
from workbench.registry.log import Entry


def print_promotion(entry: Entry, forecasts: Sequence[Forecast]) -> bool:
    """Print what was chosen and why; return whether there is something to run."""
    from workbench.reports.screening import screening_sentence

    body = entry.body
    if not isinstance(body, Promotion):
        return False
    rows = [
        [
            candidate.name,
            _number(candidate.sweep_value),
            _number(candidate.rerun_mean),
            str(candidate.rerun_n),
            _bounds(candidate.improvement, candidate.lower, candidate.upper),
            "" if candidate.name == "control" else ("yes" if candidate.feasible else "no"),
        ]
        for candidate in body.candidates
    ]
    headings = ["candidate", "in the sweep", "re-run mean", "n", "improvement", "feasible"]
    print_table(headings, rows)
    say(f"Chosen: {body.chosen}. {body.reason}")
    screened = screening_sentence(body.candidates)
    if screened:
        say(screened)
    for change in body.changes:
        mark = "DEVIATION" if change.deviation else "scaled"
        say_wrapped(
            f"  {mark}  {change.key}: {change.proxy} -> {change.full}  ({change.explained_by})"
        )
    for forecast in forecasts:
        within = next((i for i in forecast.intervals if i.level == 80), None)
        bounds = f", 80 % within [{within.lower:.4f}, {within.upper:.4f}]" if within else ""
        say(f"  forecast  {forecast.target} {forecast.metric} {forecast.point:.4f}{bounds}")
    return body.chosen != "none"


def print_looks(looks: Sequence[LookLine]) -> None:
    """Print what the registered looks said; nothing where none was made before the verdict."""
    if not looks:
        return
    rows = [
        [
            str(look.number),
            str(look.num_seeds),
            _bounds(look.estimate, look.lower, look.upper),
            look.outcome,
            "" if look.next_seeds is None else f"to {look.next_seeds} seeds",
        ]
        for look in looks
    ]
    print_table(["look", "seeds an arm", "improvement", "outcome", "goes on"], rows)


def print_verdict(entry: Entry) -> None:
    """Print the outcome with rule, estimate, interval and n, and how the forecasts did."""
    body = entry.body
    if not isinstance(body, Verdict):
        return
    say(f"{body.outcome.upper()}  {body.hypothesis}: {body.claim}", bold=True)
    counts = ", ".join(f"{arm} n={len(values)}" for arm, values in sorted(body.values.items()))
    bounds = _bounds(body.estimate, body.lower, body.upper)
    say(f"  improvement in {body.metric}  {bounds}  {counts}")
    rule = " ".join(filter(None, (body.interval, body.stopping)))
    say(f"  rule  {rule}, two one-sided bounds at alpha {body.alpha:g}{_used(body)}")
    for result in body.results[1:]:
        bounds = _bounds(result.estimate, result.lower, result.upper)
        say(f"  {result.hypothesis}  {result.claim} on {result.metric}: {result.outcome}  {bounds}")
    for reason in body.void_reasons:
        say(f"  void because  {reason}")
    for guardrail in body.guardrails:
        held = "held" if guardrail.held else "BREACHED"
        say(f"  guardrail  {guardrail.metric} {guardrail.treatment_mean:.4f} {held}")
    for score in body.scores:
        inside = "inside" if score.covered.get("p80") else "outside"
        say(f"  forecast of {score.target}: off by {score.error:+.4f}, {inside} its 80 % interval")
    say(f"  registered action  {body.action}")


def _used(verdict: Verdict) -> str:
    """Return what the bounds are, where that is not the whole of what was registered."""
    first = next(iter(verdict.results), None)
    if first is None:
        return ""
    share = f", {first.alpha:.4g} at this look" if first.alpha != verdict.alpha else ""
    other = f" by {first.interval}" if first.interval != verdict.interval else ""
    return f"{share}{other}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _bounds(estimate: float | None, lower: float | None, upper: float | None) -> str:
    if estimate is None:
        return ""
    if lower is None or upper is None:
        return f"{estimate:+.4f}"
    return f"{estimate:+.4f} [{lower:+.4f}, {upper:+.4f}]"
