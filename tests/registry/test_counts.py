"""Numbers of things, as reports say them."""

from tests.registry.conftest import LogFolder
from workbench.registry.counts import count_of, entries_of
from workbench.registry.verify import verify_log


def test_one_thing_is_said_in_the_singular() -> None:
    assert [entries_of(number) for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]
    assert [count_of(number, "head") for number in (0, 1, 2)] == ["0 heads", "1 head", "2 heads"]


def test_report_of_a_young_log_is_in_the_singular(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
    told = {check.name: check.detail for check in report.checks}
    assert told["all entries"] == "1 entry"
    assert told["bodies"] == "1 entry"
    assert told["earlier heads"] == "1 head"
