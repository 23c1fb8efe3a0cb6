import base64
from dataclasses import fields

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, sample_log
from workbench.errors import NotFoundError
from workbench.registry.entries import Promotion, Trial
from workbench.registry.merkle import tree_root
from workbench.reports.facts import Cited, experiment_facts, merged_sources


def test_facts_of_every_kind_name_the_entry_they_came_from() -> None:
    log = sample_log()
    facts = experiment_facts(log, EXPERIMENT)
    by_leaf = {entry.leaf: entry for entry in log.found}
    lists = [getattr(facts, found.name) for found in fields(facts)]
    cited = [c for value in lists if isinstance(value, tuple) for c in value if hasattr(c, "leaf")]
    cited = [c for c in cited if isinstance(c, Cited)]
    assert len(cited) > 30
    for found in cited:
        entry = by_leaf[found.leaf]
        assert (found.id, found.kind, found.time) == (entry.id, entry.kind, entry.time)
        assert found.value == entry.body


def test_facts_of_an_unknown_subject_are_refused_with_the_remedy() -> None:
    with pytest.raises(NotFoundError, match="0009-nothing") as refused:
        experiment_facts(sample_log(), "0009-nothing")
    assert "workbench register" in refused.value.remedy


def test_facts_hold_only_the_entries_of_their_subject() -> None:
    log = sample_log()
    other = next(e for e in exploratory_log().found if isinstance(e.body, Trial))
    log.append(other.body, "0002-other")
    facts = experiment_facts(log, EXPERIMENT)
    assert facts.exploratory is None
    assert facts.as_of.sequence == len(log.found) - 2


def test_tree_head_covers_the_log_up_to_the_last_entry_about_the_experiment() -> None:
    log = sample_log()
    before = experiment_facts(log, EXPERIMENT).tree_head
    size = len(log.found)
    log.append(log.found[-1].body, "0002-other")
    after = experiment_facts(log, EXPERIMENT).tree_head
    assert after == before
    origin, count, root, _ = before.split("\n")
    assert (origin, int(count)) == (log.origin, size)
    leaves = [bytes.fromhex(entry.leaf) for entry in log.found[:size]]

    assert base64.b64decode(root) == tree_root(leaves)


def test_exploratory_promotion_never_stands_for_the_confirmatory_one() -> None:
    log = sample_log()
    body = next(e.body for e in log.found if isinstance(e.body, Promotion))
    log.append(body.model_copy(update={"mode": "exploratory", "chosen": "trial-99"}))
    facts = experiment_facts(log, EXPERIMENT)
    assert facts.promotion is not None
    assert facts.promotion.value.chosen == body.chosen


def test_exploratory_subject_has_no_registration_and_its_own_sweep() -> None:
    facts = experiment_facts(exploratory_log(), "recipe:mixture@1")
    assert not facts.confirmatory
    assert facts.sweep is None
    assert facts.exploratory is not None
    assert len(facts.exploratory.trials) == 16


def test_merged_sources_are_distinct_and_in_the_order_of_the_ledger() -> None:
    facts = experiment_facts(sample_log(), EXPERIMENT)
    found = merged_sources([*reversed(facts.starts), *facts.starts])
    sequences = [source.sequence for source in found]
    assert sequences == sorted(set(sequences))


def test_lab_without_a_genesis_is_called_by_its_origin() -> None:
    log = MemoryLog(found=exploratory_log().found)
    assert experiment_facts(log, "recipe:mixture@1").lab == "example.org/lab"
