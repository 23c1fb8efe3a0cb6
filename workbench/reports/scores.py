"""Every forecast of a lab with what became of it, and how forecasts have done.

The three forecasts of one experiment rise and fall together, so they are never counted together:
each target has a scoreboard of its own, to which an experiment gives one forecast.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.analysis.forecasts import score
from workbench.analysis.scoreboard import Forecasted, Standing, band, scoreboard
from workbench.registry.entries import Forecast, RunStarted, Verdict
from workbench.reports.facts import Cited, ExperimentFacts, Source, of_kind, source_of
from workbench.reports.status import score_of

TARGETS = ("improvement", "treatment", "control")
Fate: TypeAlias = Literal[
    "scored",
    "open",
    "void",
    "withdrawn",
    "hidden",
    "late",
    "superseded",
    "exploratory",
    "unscorable",
]
UNSCORED: tuple[Fate, ...] = ("open", "void", "withdrawn", "hidden")
"""Fates of forecasts that count as made and have no result."""
LEFT_OUT: tuple[Fate, ...] = ("late", "superseded", "exploratory", "unscorable")
"""Fates of forecasts that are in no figure, and are named instead."""


@dataclass(frozen=True, kw_only=True)
class ForecastRecord:
    """One forecast with what became of it."""

    experiment: str
    origin: str
    """Of the log that it is in."""
    forecast: Cited[Forecast]
    family: str
    """Kind of experiment and method of forecasting."""
    fate: Fate
    why: str
    """Why it has no score; empty where it has one or still waits for it."""
    observed: float | None
    sources: tuple[Source, ...]
    """The forecast and, where it is scored, the verdict."""


@dataclass(frozen=True, kw_only=True)
class HiddenForecast:
    """A forecast whose content is withheld or was erased: what it was about is not known."""

    experiment: str
    origin: str
    why: str
    source: Source


@dataclass(frozen=True, kw_only=True)
class TargetBoard:
    """How the forecasts of one target have done."""

    target: str
    standings: tuple[Standing, ...]
    """All, then by family, then by band of extrapolation."""
    sources: tuple[Source, ...]
    """The scored forecasts and the verdicts that scored them."""


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """All forecasts of a lab."""

    boards: tuple[TargetBoard, ...]
    """One a target that was ever forecast, the improvement first."""
    forecasts: tuple[ForecastRecord, ...]
    """Each forecast that can be read, in the order of the experiments and of the log."""
    hidden: tuple[HiddenForecast, ...]

    def having(self, *fates: Fate) -> tuple[ForecastRecord, ...]:
        """Return the forecasts with one of these fates."""
        return tuple(record for record in self.forecasts if record.fate in fates)


def lab_scoreboard(found: Iterable[ExperimentFacts]) -> Scoreboard:
    """Return the scoreboard of some experiments."""
    every = tuple(found)
    records = tuple(record for facts in every for record in forecast_records(facts))
    counted = [record for record in records if record.fate not in LEFT_OUT]
    return Scoreboard(
        boards=tuple(_board(target, counted) for target in _targets(counted)),
        forecasts=records,
        hidden=tuple(hidden for facts in every for hidden in _hidden(facts)),
    )


def forecast_records(facts: ExperimentFacts) -> tuple[ForecastRecord, ...]:
    """Return each forecast of an experiment with what became of it.

    Of several forecasts of one target the last that was made before any full-scale run counts.
    """
    begun = next((source_of(e) for e in facts.entries if e.kind == RunStarted.kind), None)
    every = of_kind(facts.entries, Forecast)
    timely = {f.value.target: f for f in every if not _left_out(facts, f, begun)[0]}
    return tuple(_record(facts, forecast, begun, timely) for forecast in every)


def _record(
    facts: ExperimentFacts,
    forecast: Cited[Forecast],
    begun: Source | None,
    timely: Mapping[str, Cited[Forecast]],
) -> ForecastRecord:
    fate, why = _left_out(facts, forecast, begun)
    last = timely.get(forecast.value.target, forecast)
    if not fate and last is not forecast:
        fate, why = "superseded", f"made again in entry {last.sources[0].sequence}"
    if not fate:
        fate, why = _result(facts, forecast)
    scored = score_of(facts, forecast.value.target) if fate == "scored" else None
    kind = facts.proposal.kind if facts.proposal else "unknown kind"
    return ForecastRecord(
        experiment=facts.experiment,
        origin=facts.origin,
        forecast=forecast,
        family=f"{kind}, {forecast.value.method}",
        fate=fate,
        why=why,
        observed=scored.value.observed if scored else None,
        sources=(*forecast.sources, *(scored.sources if scored else ())),
    )


def _left_out(
    facts: ExperimentFacts, forecast: Cited[Forecast], begun: Source | None
) -> tuple[Fate | Literal[""], str]:
    """Return why a forecast is none that counts; nothing where it is one."""
    if not facts.confirmatory or forecast.value.mode != "confirmatory":
        return "exploratory", "made outside of any registration"
    # Of whatever mode: an exploratory run at full scale shows what would have to be forecast.
    if begun is not None and forecast.sources[0].sequence > begun.sequence:
        return "late", f"made after a full-scale run began in entry {begun.sequence}"
    return "", ""


def _result(facts: ExperimentFacts, forecast: Cited[Forecast]) -> tuple[Fate, str]:
    fault = _fault(forecast.value, forecast.value.point)
    if fault:
        return "unscorable", fault
    if facts.verdict is not None:
        return _outcome(facts, facts.verdict.value, forecast.value)
    if facts.hides(Verdict.kind):
        return "hidden", "the verdict is hidden"
    if facts.withdrawal is not None:
        return "withdrawn", facts.withdrawal.value.reason
    return "open", ""


def _outcome(facts: ExperimentFacts, verdict: Verdict, forecast: Forecast) -> tuple[Fate, str]:
    scored = score_of(facts, forecast.target)
    # A verdict that a late amendment made void has values all the same, and so has scores: nobody
    # gets rid of a bad forecast by amending.
    if scored is None and verdict.outcome == "void":
        return "void", "; ".join(verdict.void_reasons)
    if scored is None:
        return "unscorable", "the verdict has no score of it"
    if verdict.metric != forecast.metric:
        return "unscorable", f"the verdict is about {verdict.metric}, it about {forecast.metric}"
    fault = _fault(forecast, scored.value.observed)
    return ("unscorable", fault) if fault else ("scored", "")


def _fault(forecast: Forecast, observed: float) -> str:
    try:
        band(forecast.extrapolation_ratio)
        score(
            point=forecast.point,
            spread=forecast.spread,
            intervals=_intervals(forecast),
            baselines=forecast.baselines,
            observed=observed,
        )
    except ValueError as error:
        return str(error)
    return ""


def _intervals(forecast: Forecast) -> dict[int, tuple[float, float]]:
    return {i.level: (i.lower, i.upper) for i in forecast.intervals}


def _targets(records: Sequence[ForecastRecord]) -> list[str]:
    found = {record.forecast.value.target for record in records}
    return [target for target in TARGETS if target in found] + sorted(found - set(TARGETS))


def _board(target: str, records: Sequence[ForecastRecord]) -> TargetBoard:
    of_target = [record for record in records if record.forecast.value.target == target]
    scored = [record for record in of_target if record.fate == "scored"]
    return TargetBoard(
        target=target,
        standings=tuple(scoreboard([_forecasted(record) for record in of_target])),
        sources=tuple(source for record in scored for source in record.sources),
    )


def _forecasted(record: ForecastRecord) -> Forecasted:
    body = record.forecast.value
    return Forecasted(
        family=record.family,
        metric=body.metric,
        extrapolation_ratio=body.extrapolation_ratio,
        point=body.point,
        spread=body.spread,
        intervals=_intervals(body),
        baselines=body.baselines,
        observed=record.observed,
    )


def _hidden(facts: ExperimentFacts) -> list[HiddenForecast]:
    return [
        HiddenForecast(
            experiment=facts.experiment,
            origin=facts.origin,
            why=found.why,
            source=source_of(found.entry),
        )
        for found in facts.hidden
        if found.entry.kind == Forecast.kind
    ]
