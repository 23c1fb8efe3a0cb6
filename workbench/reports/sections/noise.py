"""How much runs differ that differ in nothing but their seed, as it was measured."""

from workbench.registry.entries import NoiseFloor
from workbench.reports.blocks import Block, Heading, Row, Section, Table, lines, section, table
from workbench.reports.facts import Cited, ExperimentFacts, of_kind
from workbench.reports.narrative import Line, clause, line, sentence
from workbench.reports.quantities import MISSING, count, number, percent, significant


def noise_section(facts: ExperimentFacts) -> Section | None:
    """Return the noise floors of this subject and the one that its rule names; None without any."""
    own = of_kind(facts.entries, NoiseFloor)
    named = [facts.noise_floor] if facts.noise_floor else []
    floors = {floor.leaf: floor for floor in [*own, *named]}
    if not floors:
        return None
    blocks: list[Block | None] = []
    for floor in floors.values():
        blocks += [
            Heading(text=_title(floor.value)),
            lines(*_told(floor)),
            _spreads(floor),
            _repeats(floor),
        ]
    return section("noise", "Noise floor", blocks)


def _title(body: NoiseFloor) -> str:
    where = f"full scale of {body.experiment}" if body.scale == "full" else f"scale {body.scale}"
    return f"{body.recipe}, {where}"


def _told(floor: Cited[NoiseFloor]) -> list[Line]:
    body, sources = floor.value, floor.sources
    shares = [f"{domain}\u00a0{percent(share)}" for domain, share in body.mixture.items()]
    how = "imported" if body.origin == "imported" else "run here"
    return [
        line(
            "What it is of",
            clause(f"{', '.join(shares)} of {body.corpus}, configuration", sources,
                   code=body.config_sha256),
        ),
        line("Repeats", clause(sentence(f"{count(body.num_runs)} completed of "
                                        f"{count(len(body.repeats))}, {how}: {body.source}"),
                               sources)),
        line("Measured on", clause("The validation split; the sealed test was not read.", sources)),
        line("Named by", clause("this leaf hash", sources, code=floor.leaf)),
    ]  # fmt: skip


def _spreads(floor: Cited[NoiseFloor]) -> Table | None:
    freedom = count(max(0, floor.value.num_runs - 1))
    return table(
        f"Spread between seeds: sample standard deviation, {freedom} degrees of freedom.",
        ["Metric", "Spread"],
        [
            Row(cells=(metric, significant(spread)), sources=floor.sources)
            for metric, spread in floor.value.spreads.items()
        ],
        numeric=(1,),
    )


def _repeats(floor: Cited[NoiseFloor]) -> Table | None:
    metrics = list(floor.value.spreads)
    return table(
        "Every repeat; one that did not complete is in no spread.",
        ["Seed", "Ended", *metrics],
        [
            Row(
                cells=(
                    repeat.seed,
                    repeat.state,
                    *(
                        number(repeat.values[metric], 5) if metric in repeat.values else MISSING
                        for metric in metrics
                    ),
                ),
                sources=floor.sources,
                tone="" if repeat.state == "completed" else "grave",
            )
            for repeat in floor.value.repeats
        ],
        numeric=tuple(range(2, len(metrics) + 2)),
    )
