"""Whether outcomes were looked at as registered: when, in which order, and what of it was told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.registry.entries import Exposure, Look, RunStarted, SeedValue, Verdict
from workbench.registry.exposures import untold_reason
from workbench.reports.claim import Claim, seeds_of
from workbench.reports.facts import Cited, ExperimentFacts
from workbench.reports.lineage import run_lineages


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """A look, or the verdict: an entry that tells values of the sealed split."""

    name: str
    place: int
    num_seeds: int | None
    """Seeds an arm that had run for it; None for all there are."""
    is_void: bool
    reasons: tuple[str, ...]
    """Why it is void."""
    seeds: tuple[SeedValue, ...]

    @property
    def runs(self) -> set[str]:
        """Those that it has a value of."""
        return {seed.run for seed in self.seeds if seed.value is not None}


def _readings(claim: Claim) -> list[_Reading]:
    found = [
        _Reading(
            name=f"look {look.value.number}",
            place=look.sources[0].sequence,
            num_seeds=look.value.num_seeds,
            is_void=bool(look.value.void_reasons),
            reasons=tuple(look.value.void_reasons),
            seeds=tuple(seed for seeds in look.value.values.values() for seed in seeds),
        )
        for look in claim.facts.looks
    ]
    verdict = claim.verdict
    last = _Reading(
        name="the verdict",
        place=verdict.sources[0].sequence,
        num_seeds=None,
        is_void=verdict.value.outcome == "void",
        reasons=tuple(verdict.value.void_reasons),
        seeds=tuple(seeds_of(verdict.value)),
    )
    return [*found, last]


def confirmatory_starts(facts: ExperimentFacts) -> list[Cited[RunStarted]]:
    """Return the attempts that belong to the registered runs; exploring is free at any time."""
    return [start for start in facts.starts if start.value.mode == "confirmatory"]


def check_exposure(claim: Claim) -> Iterator[str]:
    """6. The sealed split was opened for each run once, after its end and before it is told of."""
    opened = [e for e in claim.facts.exposures if e.value.what == "sealed_test"]
    told: set[str] = set()
    begin = -1
    for reading in _readings(claim):
        fresh = reading.runs - told
        between = [e for e in opened if begin < e.sources[0].sequence < reading.place]
        yield from _opening_faults(reading, between, fresh)
        if between:
            yield from _order_faults(claim.facts, reading, between[0])
        told |= fresh
        begin = reading.place
    if any(e.sources[0].sequence > begin for e in opened):
        yield "the sealed test split was opened after the verdict"


def _opening_faults(
    reading: _Reading, opened: Sequence[Cited[Exposure]], fresh: set[str]
) -> Iterator[str]:
    if fresh and not opened:
        yield f"no exposure of the sealed test split is recorded for {reading.name}"
    if len(opened) > 1:
        yield f"the sealed test split was opened {len(opened)} times for {reading.name}"
    for exposure in opened:
        place, runs = exposure.sources[0].sequence, set(exposure.value.runs)
        if runs and not fresh:
            # A look that was cut short and given up: it is said, and nothing is claimed.
            if reading.is_void and untold_reason(place) in reading.reasons:
                continue
            yield f"the sealed test split was opened (entry {place}) and {reading.name} tells "
            "no value of it"
        elif runs != fresh:
            yield (
                f"the sealed test split was opened (entry {place}) for {sorted(runs)}, "
                f"{reading.name} tells of {sorted(fresh)}"
            )


def _order_faults(
    facts: ExperimentFacts, reading: _Reading, opened: Cited[Exposure]
) -> Iterator[str]:
    place = opened.sources[0].sequence
    starts, most = confirmatory_starts(facts), reading.num_seeds
    looked_at = [s for s in starts if most is None or s.value.seed_index < most]
    late = [start for start in looked_at if start.sources[0].sequence > place]
    if late:
        yield f"{len(late)} run attempts started after the sealed test split was opened"
    ended = [run.attempts[-1].ended for run in run_lineages(facts) if run.run in reading.runs]
    unended = [end for end in ended if end and end.sources[0].sequence > place]
    if unended:
        yield f"{len(unended)} runs ended after the sealed test split was opened for them"


def check_looks(claim: Claim) -> Iterator[str]:
    """10. Looks came at the registered numbers of seeds, and none after the rule had stopped.

    Where the rule was amended after outcomes were seen, the verdict is void, and only that values
    stay what they were is asked of its looks.
    """
    facts = claim.facts
    yield from _changed_values(claim)
    if facts.course.late():
        return
    try:
        planned = claim.looks()
    except ValueError as error:
        yield f"the registered rule cannot be applied: {error}"
        return
    if claim.is_sequential:
        yield from _schedule_faults(facts.looks, planned)
        yield from _start_faults(facts)
        yield from _last_faults(claim)
    else:
        yield from _single_faults(claim, planned)


def _changed_values(claim: Claim) -> Iterator[str]:
    """Yield seeds that a later look or the verdict tells otherwise than the first that told."""
    told: dict[str, tuple[str, SeedValue]] = {}
    for reading in _readings(claim):
        for seed in reading.seeds:
            if seed.value is None and reading.is_void:
                continue  # the split stayed shut for it
            first, known = told.setdefault(seed.run, (reading.name, seed))
            if seed.model_dump_json() != known.model_dump_json():
                yield f"{reading.name} tells another value of {seed.run} than {first}"


def _schedule_faults(looks: Sequence[Cited[Look]], planned: Sequence[int]) -> Iterator[str]:
    numbers = [look.value.number for look in looks]
    if numbers != list(range(1, len(looks) + 1)):
        yield f"looks are numbered {numbers}"
    found = [look.value.num_seeds for look in looks]
    if found != list(planned[: len(found)]):
        yield f"looks at {found} seeds an arm, registered were {list(planned)}"
    for look in looks[:-1]:
        if look.value.state != "go_on":
            yield f"a look follows look {look.value.number}, which said {look.value.state}"


def _start_faults(facts: ExperimentFacts) -> Iterator[str]:
    """Yield runs of later seeds that did not wait for the look that went on to them."""
    looks = [(look.value, look.sources[0].sequence) for look in facts.looks]
    for start in confirmatory_starts(facts):
        body, place = start.value, start.sources[0].sequence
        before = [(look, at) for look, at in looks if look.num_seeds <= body.seed_index]
        if not before:
            continue
        look, at = before[-1]
        what = f"attempt {body.attempt} of {body.run}"
        if place < at:
            yield f"{what} started before look {look.number}, which decided about it"
        elif look.state != "go_on":
            yield f"{what} started although look {look.number} said {look.state}"


def _last_faults(claim: Claim) -> Iterator[str]:
    """Yield where the verdict is not that of the last look."""
    body = claim.verdict.value
    if not claim.facts.looks:
        if body.outcome != "void":
            yield "a verdict without the looks that were registered"
        elif any(seed.value is not None for seed in seeds_of(body)):
            yield "values without the look that opened them"
        return
    last = claim.facts.looks[-1].value
    if claim.facts.looks[-1].sources[0].sequence > claim.verdict.sources[0].sequence:
        yield f"look {last.number} came after the verdict"
    if last.state == "go_on":
        yield from _abandoned_faults(body, last)
        return
    if (body.look, body.num_seeds) != (last.number, last.num_seeds):
        yield (
            f"the verdict is of look {body.look} at {body.num_seeds} seeds, the last was look "
            f"{last.number} at {last.num_seeds}"
        )
    if _values(body) != _values(last):
        yield f"the verdict's values are not those of look {last.number}"
    if [r.model_dump_json() for r in body.results] != [r.model_dump_json() for r in last.results]:
        yield f"the verdict's results are not those of look {last.number}"


def _abandoned_faults(body: Verdict, last: Look) -> Iterator[str]:
    """Yield what is wrong with a verdict that was given before the rule stopped."""
    if body.outcome != "void":
        yield (
            f"look {last.number} went on to {last.next_seeds} seeds, and the verdict is "
            f"{body.outcome}"
        )
    looked = {seed.run for seeds in last.values.values() for seed in seeds}
    more = [s.run for s in seeds_of(body) if s.value is not None and s.run not in looked]
    if more:
        yield f"values of {more}, which no look opened"
    known = {(last.number, last.num_seeds), (last.number + 1, last.next_seeds)}
    if (body.look, body.num_seeds) not in known:
        yield f"the verdict is of look {body.look} at {body.num_seeds} seeds, which never came"


def _single_faults(claim: Claim, planned: Sequence[int]) -> Iterator[str]:
    body = claim.verdict.value
    for look in claim.facts.looks:
        yield f"look {look.value.number} was taken, the rule looks once, at the verdict"
    if not claim.is_older and (body.look, body.num_seeds) != (1, planned[-1]):
        yield (
            f"the verdict is of look {body.look} at {body.num_seeds} seeds, registered was one at "
            f"{planned[-1]}"
        )


def _values(body: Look | Verdict) -> dict[str, list[str]]:
    return {arm: [seed.model_dump_json() for seed in seeds] for arm, seeds in body.values.items()}
