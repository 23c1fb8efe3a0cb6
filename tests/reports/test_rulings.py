"""What a chronicle tells of looks, families and noise floors, and where an experiment stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.reports.looks import Story, forged, noise_floor, story
from tests.reports.sample import EXPERIMENT, MemoryLog, sample_log
from workbench.registry.entries import Look, NoiseFloor, Verdict
from workbench.reports.blocks import Paragraph, Picture, Table
from workbench.reports.chronicle import chronicle
from workbench.reports.facts import experiment_facts
from workbench.reports.index import index_of
from workbench.reports.render import chronicle_html, chronicle_markdown
from workbench.reports.rulings import rulings_of
from workbench.reports.sections.question import question_section
from workbench.reports.sections.verdict import verdict_section
from workbench.reports.site import write_chronicles
from workbench.reports.stages import experiment_statuses
from workbench.reports.status import state_of, status_lines
from workbench.reports.timeline import timeline
from workbench.reports.wording import level

NOW = datetime(2026, 4, 1, tzinfo=UTC)
HOSTILE = "../../</title><script>window.hit=1</script>`|[x](y)"


def blocks(log: MemoryLog, kind: type) -> list[Any]:
    section = verdict_section(experiment_facts(log, EXPERIMENT))
    return [block for block in section.blocks if isinstance(block, kind)]


def sentences(log: MemoryLog, place: int = 1) -> list[str]:
    return [clause.text for clause in blocks(log, Paragraph)[place].clauses]


def spaced(text: object) -> str:
    return str(text).replace("\u00a0", " ").replace("\\xa0", " ")


def text_of(log: MemoryLog) -> str:
    return spaced(chronicle_markdown(chronicle(experiment_facts(log, EXPERIMENT))))


def test_verdict_is_told_in_three_sentences_that_cite_what_they_rest_on() -> None:
    log = story().decided()
    first, *_ = blocks(log, Paragraph)
    assert first.clauses[0].text == "H1 is supported."
    told = blocks(log, Paragraph)[1].clauses
    assert [clause.sources[0].kind for clause in told] == ["registration", "look", "verdict"]
    claimed, seen, otherwise = sentences(log)
    assert "by enough to matter, 0.02" in claimed
    assert seen.startswith("Seen was an improvement of +0.03507 from 8 control and 8 treatment")
    assert "at least +0.01147 and at most +0.05868 by Welch's t at alpha 0.01667" in seen
    assert "below −0.003601 would have refuted it" in otherwise


def test_older_verdict_is_told_in_the_same_sentences() -> None:
    claimed, seen, _ = sentences(sample_log())
    assert "rule: superior(0.02) welch_t fixed(3) alpha 0.05" in claimed
    assert "from 3 control and 3 treatment seeds" in seen


def test_broken_guardrail_is_in_the_sentences() -> None:
    log = story(guardrail=1.5, effect=0.1).decided()
    _, seen, otherwise = sentences(log)
    assert seen.endswith("with bpb_math breached: refuted by the breach.")
    assert otherwise == "Without the breach it would have been supported."


def test_void_verdict_says_why_and_that_no_value_is_to_blame() -> None:
    told = story(diverged=frozenset({"control/seed-1"}))
    told.look(3, void=["run control/seed-1 diverged"])
    told.verdict()
    assert "void (run control/seed-1 diverged)" in sentences(told.log)[1]
    given_up = story()
    given_up.look(3)
    given_up.verdict(outcome="void", void_reasons=["the look at 5 seeds was never made"], scores=[])
    _, seen, otherwise = sentences(given_up.log)
    assert "void (the look at 5 seeds was never made)" in seen
    assert otherwise.startswith("No value could have changed that")


def test_looks_stand_in_a_table_with_what_followed_from_each() -> None:
    (looks,) = [t for t in blocks(story().decided(), Table) if t.caption.startswith("Looks at H1")]
    assert looks.columns[:2] == ("Look", "Seeds an arm")
    assert [row.cells[:2] for row in looks.rows] == [("1", "3"), ("2", "5"), ("3", "8")]
    assert looks.rows[0].cells[2:] == (
        "+0.0330", "−0.0358", "+0.1018", "0.0167", "inconclusive", "on to 5 seeds"
    )  # fmt: skip
    assert looks.rows[2].cells[-2:] == ("supported", "the last look")
    assert [row.sources[0].kind for row in looks.rows] == ["look"] * 3


def test_verdict_of_one_look_has_no_table_of_looks() -> None:
    captions = [t.caption for t in blocks(story(stopping="fixed(5)", seeds=5).decided(), Table)]
    assert not [caption for caption in captions if caption.startswith("Looks")]


def test_family_has_a_table_sentences_and_a_figure_for_every_claim() -> None:
    log = story(family=True, effect=0.04).decided()
    (family,) = [t for t in blocks(log, Table) if t.caption.startswith("What the rule says of")]
    assert [row.cells[0] for row in family.rows] == ["H1", "H2", "H3"]
    assert [b.figure.name for b in blocks(log, Picture)] == ["verdict", "verdict-2", "verdict-3"]
    assert "H2: Claimed was that the treatment's bpb_code is not worse" in text_of(log)
    assert "supported since look 2" in text_of(log)


def test_between_looks_the_chronicle_shows_what_was_seen_and_that_it_goes_on() -> None:
    told = story()
    told.look(3)
    told.run(3, 4)
    facts = experiment_facts(told.log, EXPERIMENT)
    assert state_of(facts) == "running"
    line = status_lines(facts)[1]
    assert (
        spaced(line.text) == "8 of 10 full-scale runs ended; look 1 at 3 seeds an arm went on to 5."
    )
    assert line.clauses[0].sources[-1].kind in ("look", "run_ended")
    assert index_of({"x": facts}).rows[0].state == "running"
    assert "There is none yet: look 1 at 3 seeds an arm went on to 5." in text_of(told.log)
    (picture,) = blocks(told.log, Picture)
    assert picture.figure.alt.startswith("So far inconclusive: improvement +0.0330")


STAGES: list[tuple[str, str, str, str]] = [
    ("two runs", "running", "4 of 6 runs of look 1", "run"),
    ("first look", "running", "6 of 10 runs, look 1 at 3 seeds went on to 5", "run"),
    ("next runs", "running", "8 of 10 runs, look 1 at 3 seeds went on to 5", "run"),
    ("last look", "run", "16 runs, look 3 at 8 seeds was the last", "verdict"),
]


def at_stage(name: str) -> Story:
    told = story()
    if name == "two runs":
        told.run(0, 2)
        return told
    told.look(3)
    if name == "next runs":
        told.run(3, 4)
    if name == "last look":
        told.look(5)
        told.look(8)
    return told


@pytest.mark.parametrize(("name", "stage", "detail", "command"), STAGES)
def test_status_tells_which_look_is_due(name: str, stage: str, detail: str, command: str) -> None:
    (found,) = experiment_statuses(at_stage(name).log, [], NOW)
    assert (found.stage, found.detail) == (stage, detail)
    assert found.next_command == f"workbench {command} 0001"


def test_status_of_a_rule_that_may_look_at_any_time_knows_no_next_look() -> None:
    told = story(interval="paired_t", stopping="anytime", seeds=6)
    told.run(0, 2)
    (found,) = experiment_statuses(told.log, [], NOW)
    assert (found.stage, found.detail) == ("running", "4 runs of 12 at most")
    facts = experiment_facts(told.log, EXPERIMENT)
    assert spaced(status_lines(facts)[1].text) == "4 of at most 12 full-scale runs ended."


def test_state_is_ran_once_the_rule_wants_no_more() -> None:
    told = story(effect=0.1)
    told.look(3)
    facts = experiment_facts(told.log, EXPERIMENT)
    assert state_of(facts) == "ran"
    assert "look 1 at 3 seeds an arm was the last; the verdict" in spaced(
        status_lines(facts)[1].text
    )


def test_looks_and_noise_floors_are_events() -> None:
    log = story(family=True).decided()
    events = [e for e in timeline(experiment_facts(log, EXPERIMENT)) if e.kind == "look"]
    assert spaced(events[0].text) == (
        "Look 1 at 3 seeds an arm: improvement +0.0330 bits/byte [−0.0660, +0.1320], "
        "inconclusive; H2 inconclusive and H3 inconclusive; on to 5 seeds."
    )
    assert events[-1].text.endswith("it was the last.")
    told = story(diverged=frozenset({"control/seed-1"}))
    told.look(3, void=["run control/seed-1 diverged"])
    (event,) = [e for e in timeline(experiment_facts(told.log, EXPERIMENT)) if e.kind == "look"]
    assert event.grave
    assert (
        spaced(event.text)
        == "Look 1 at 3 seeds an arm judged nothing: run control/seed-1 diverged."
    )
    floor = story(interval="calibrated_t", floor=noise_floor(), spread=0.005).log
    (measured,) = timeline(experiment_facts(floor, "recipe:mixture@1"))
    assert spaced(measured.text).startswith(
        "Noise floor of mixture@1 at scale full: 10 repeats, spread "
    )


RULES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ("Looks at 3, 5 and 8 seeds an arm, each with α/3 (98.3\u202f% bounds)", "Welch’s t")),
    (
        {"interval": "paired_t", "stopping": "anytime"},
        ("After each seed from the first", "e-process", "By seed: what the arms’ runs"),
    ),
    (
        {"interval": "perm_exact", "stopping": "fixed(5)", "seeds": 5},
        ("After exactly 5 seeds an arm", "every split of the seeds", "None; the arms"),
    ),
    (
        {"interval": "calibrated_t", "floor": noise_floor()},
        ("10 repeats of mixture@1 at scale full: bpb_macro varies by 0.0026", "pooled"),
    ),
    (
        {"family": True},
        ("3 claims decided together, corrected by Holm", "equivalent(0.03) on bpb_docs"),
    ),
]


@pytest.mark.parametrize(("options", "said"), RULES)
def test_question_describes_the_rule_in_words(
    options: dict[str, Any], said: tuple[str, ...]
) -> None:
    section = question_section(experiment_facts(story(**options).log, EXPERIMENT))
    for words in said:
        assert words in spaced(section).replace("\\u202f", "\u202f"), words


def test_noise_floor_that_is_not_in_the_log_is_said_to_be_absent() -> None:
    log = story(interval="calibrated_t", floor=noise_floor()).log
    leaf = next(e.leaf for e in log.found if e.kind == "noise_floor")
    log.found = [e for e in log.found if e.kind != "noise_floor"]
    section = question_section(experiment_facts(log, EXPERIMENT))
    assert "entry not in this log, leaf" in spaced(section)
    assert leaf in str(section)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"family": True},
        {"interval": "paired_t", "stopping": "anytime", "seeds": 6},
        {"interval": "calibrated_t", "floor": noise_floor(), "spread": 0.005},
    ],
)
def test_every_citation_leads_to_an_entry(options: dict[str, Any]) -> None:
    html = chronicle_html(chronicle(experiment_facts(story(**options).decided(), EXPERIMENT)))
    links = set(re.findall(r'href="#(e\d+)"', html))
    assert links <= set(re.findall(r'id="(e\d+)"', html))


def test_noise_floor_has_a_chronicle_with_every_repeat_and_its_cost(tmp_path: Path) -> None:
    log = story(interval="calibrated_t", floor=noise_floor(), spread=0.005).decided()
    write_chronicles(log, tmp_path)
    text = (
        (tmp_path / "recipe-mixture-v1" / "chronicle.md").read_text("utf-8").replace("\u00a0", " ")
    )
    assert "1 noise floor measured; nothing was tried" in text
    assert "| 799 | diverged |" in text
    assert "| noise floor | completed | 11 repeats | — |" in text
    own = (tmp_path / EXPERIMENT / "chronicle.md").read_text("utf-8")
    assert "## Noise floor" in own
    # It was measured for others, too, and is counted where it was recorded.
    assert "noise floor | completed" not in own


@pytest.mark.parametrize(
    ("alpha", "shown"),
    [(0.05, "95"), (0.05 / 3, "98.3"), (0.025, "97.5"), (0.05 / 9, "99.44"), (0.001, "99.9")],
)
def test_level_keeps_the_digits_that_tell_a_look_from_another(alpha: float, shown: str) -> None:
    assert level(alpha) == f"{shown}\u202f%"


@pytest.mark.parametrize(
    ("alpha", "shown"),
    [(1e-7, "α = 1e-07"), (1e-20, "α = 1e-20"), (4e-6, "α = 4e-06"), (1e-5, "99.999\u202f%")],
)
def test_level_is_never_rounded_to_certainty(alpha: float, shown: str) -> None:
    assert level(alpha).replace("\u00a0", " ") == shown


def hostile_look(body: Look) -> Look:
    results = [
        result.model_copy(
            update={
                "hypothesis": HOSTILE,
                "metric": HOSTILE,
                "claim": HOSTILE,
                "estimate": float("nan"),
                "lower": float("-inf"),
                "reason": HOSTILE,
            }
        )
        for result in body.results
    ]
    return body.model_copy(update={"results": results, "void_reasons": [HOSTILE]})


def test_hostile_looks_and_floors_are_harmless(tmp_path: Path) -> None:
    floor = noise_floor()
    repeats = [floor.repeats[0].model_copy(update={"seed": HOSTILE}), *floor.repeats[1:]]
    changes = {"recipe": HOSTILE, "source": HOSTILE, "repeats": repeats, "scale": HOSTILE}
    log = story(interval="calibrated_t", floor=floor.model_copy(update=changes)).decided()
    for place in range(sum(isinstance(entry.body, Look) for entry in log.found)):
        forged(log, "look", hostile_look, place)
    forged(log, "verdict", lambda body: body.model_copy(update={"interval": HOSTILE}))
    write_chronicles(log, tmp_path)
    assert not list(tmp_path.parent.glob("*.svg"))
    for page in tmp_path.rglob("*.html"):
        assert "<script" not in page.read_text("utf-8")


def test_look_without_results_is_no_ruling() -> None:
    log = story().decided()
    for place in range(3):
        forged(log, "look", lambda body: body.model_copy(update={"results": []}), place)
    (ruling,) = rulings_of(experiment_facts(log, EXPERIMENT))
    assert ruling.last.state == ""
    assert chronicle_html(chronicle(experiment_facts(log, EXPERIMENT)))


def test_kinds_of_the_stories_are_those_that_the_sections_read() -> None:
    log = story(interval="calibrated_t", floor=noise_floor(), spread=0.005).decided()
    kinds = {type(entry.body) for entry in log.found}
    assert {Look, NoiseFloor, Verdict} <= kinds
