"""What a registration records of a corpus."""

import pytest

from tests.reports.corpora import plain_manifest, sample_manifest
from workbench.canonical import canonical_json, freeze, profile_faults
from workbench.data.account import account, most_frequent
from workbench.data.manifest import seal
from workbench.registry.entries import DataAccount, DataState


def test_account_of_a_corpus_fits_the_ledger_and_is_a_few_kilobytes() -> None:
    found = account(sample_manifest())
    plain = freeze(found.model_dump(mode="python", exclude_none=True))
    assert profile_faults(plain) == []
    assert DataAccount.model_validate(plain) == found
    assert len(canonical_json(plain)) < 4000


def test_account_has_every_stage_with_its_settings_and_what_it_left_out() -> None:
    found = account(sample_manifest())
    near = found.stages[3]
    assert (near.name, near.settings["threshold"], near.settings["bands"]) == (
        *("near_duplicates", "0.8"),
        "20",
    )
    assert {d: lost.documents for d, lost in near.removed.items()} == {"code": 8, "docs": 1}
    assert found.stages[-1].removed == {}
    kept = sum(cell.documents for cell in found.composition)
    assert kept == sum(domain.kept for domain in found.domains.values()) == 300
    assert found.contamination.sets["validation"].contaminated == 2


def test_account_stays_small_and_whole_with_many_languages_licences_and_files() -> None:
    plain = plain_manifest()
    (first, *_), record = plain["composition"], plain["domains"]["code"]
    plain["composition"] = [{**first, "language": f"l{i:04}", "bytes": i} for i in range(2000)]
    record["licences"] = {f"licence {i}": i for i in range(1, 500)}
    plain["stages"][0]["settings"]["files"] = {f"f{i}": "ab" * 32 for i in range(10_000)}
    found = account(seal(plain))
    assert len(canonical_json(freeze(found.model_dump(mode="python")))) < 8000
    assert sum(cell.bytes for cell in found.composition) == sum(range(2000))
    assert found.composition[-1].language == "others"
    code = [row.documents for row in found.licences if row.domain == "code"]
    assert sum(code) == sum(range(1, 500))
    assert found.stages[0].settings["files"].startswith("sha256:")


def test_account_names_a_setting_as_the_ledger_can_hold_it() -> None:
    plain = plain_manifest()
    plain["stages"][0]["settings"] = {"Max Bytes é": 3, "on": True, "share": 0.25}
    settings = account(seal(plain)).stages[0].settings
    assert settings == {"max_bytes__": "3", "on": "true", "share": "0.25"}


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ({}, {}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1, "b": 2, "c": 3, "d": 1}, {"c": 3, "b": 2, "others": 2}),
        ({"others": 9, "b": 2, "c": 3, "d": 1}, {"others": 12, "c": 3}),
    ],
)
def test_most_frequent_sums_the_rest(counts: dict[str, int], wanted: dict[str, int]) -> None:
    assert most_frequent(counts, 3) == wanted


def test_state_without_an_account_reads_and_writes_as_before() -> None:
    old = {
        "corpus": "c@1",
        "manifest": "sha256:0",
        "documents": {"train_code": 1},
        "tokens": {"train_code": 9},
        "duplicates_removed": 0,
        "natural_mixture": {"code": "1.0"},
    }
    state = DataState.model_validate(old)
    assert state.account is None
    written = freeze(state.model_dump(mode="python", exclude_none=True))
    assert written == {**old, "evaluation_sets": {}, "builder": {}}
