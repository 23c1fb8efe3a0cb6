"""What runs and trials drew, in the terminal's and the chronicle's words."""

import dataclasses
from pathlib import Path

from tests.reports.sample import MemoryLog, exploratory_log
from workbench.registry.entries import DomainUse, Trial
from workbench.reports.drawn import drawn_in_words
from workbench.reports.site import write_chronicle

SUBJECT = "recipe:mixture@1"


def use(share: float, epochs: float) -> DomainUse:
    return DomainUse(tokens=round(share * 1000), share=share, stated=0.5, epochs=epochs)


def test_runs_that_drew_alike_are_told_once_and_others_as_a_range() -> None:
    """D5."""
    one = {"big": use(0.5, 1.0), "small": use(0.5, 100.0)}
    told = drawn_in_words([one, one, {}])
    assert told == "big 50.0\u202f% (1 epoch), small 50.0\u202f% (100 epochs)"
    other = {"big": use(0.9, 1.8), "small": use(0.1, 20.0)}
    assert drawn_in_words([other, one]) == (
        "big 50.0\u202f% to 90.0\u202f% (1 to 1.8 epochs), "
        "small 10.0\u202f% to 50.0\u202f% (20 to 100 epochs)"
    )


def test_nothing_is_told_of_records_that_do_not_say() -> None:
    assert drawn_in_words([]) == ""
    assert drawn_in_words([{}, {}]) == ""


def chronicle(log: MemoryLog, folder: Path) -> str:
    return write_chronicle(log, SUBJECT, folder).markdown.read_text("utf-8")


def test_chronicle_tells_what_completed_trials_drew_and_older_ones_stay_as_they_are(
    tmp_path: Path,
) -> None:
    log = exploratory_log()
    before = chronicle(log, tmp_path / "before")
    assert "trials drew" not in before
    drawn = {"code": use(0.75, 0.5), "docs": use(0.25, 2.0)}
    for place, entry in enumerate(log.found):
        if isinstance(entry.body, Trial):
            told = drawn if entry.body.state == "completed" else {"code": use(1.0, 9.0)}
            body = Trial.model_validate({**entry.body.model_dump(), "drawn": told})
            log.found[place] = dataclasses.replace(entry, body=body)
    after = chronicle(log, tmp_path / "after")
    words = (
        "12\u00a0completed trials drew code 75.0\u202f% (0.5 epochs), docs 25.0\u202f% (2 epochs)."
    )
    assert words in after


def test_trial_of_an_earlier_version_keeps_its_bytes() -> None:
    [first, *_] = [e.body for e in exploratory_log().found if isinstance(e.body, Trial)]
    plain = first.to_json()
    assert isinstance(plain, dict)
    assert "drawn" not in plain
    assert Trial.model_validate(plain).to_json() == plain
