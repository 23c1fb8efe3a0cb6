"""The disclosures of a chronicle about data, from the account in the ledger alone."""

from tests.reports.corpora import plain_manifest, sample_manifest
from tests.reports.sample import EXPERIMENT, MemoryLog, sample_log
from workbench.data.account import account
from workbench.data.manifest import seal
from workbench.registry.entries import DataAccount, ServedOverlap, SetOverlap
from workbench.reports.chronicle import chronicle
from workbench.reports.disclosures import composition, disclosures
from workbench.reports.facts import experiment_facts
from workbench.reports.render import chronicle_html, chronicle_markdown


def accounted(found: DataAccount | None = None) -> MemoryLog:
    """Return the sample log with a registration that carries an account."""
    log = sample_log()
    body = next(entry.body for entry in log.found if entry.kind == "registration")
    data = body.data.model_copy(update={"account": found or account(sample_manifest())})
    log.replace_body("registration", data=data)
    return log


def contamination(log: MemoryLog) -> str:
    told = {line.label: line.text for line in disclosures(experiment_facts(log, EXPERIMENT))}
    return told["Contamination"].replace("\u202f", " ").replace("\u00a0", " ")


def test_contamination_states_method_threshold_and_overlap_of_each_set() -> None:
    told = contamination(accounted())
    for words in (
        "near-duplicates at a similarity of 0.8 or more too, 9 documents",
        "13-grams of words (one in 4, chosen by its hash)",
        "at least 50.0 % of its n-grams found counts as contaminated",
        "Validation: 1.0 % of 9 000 n-grams found, 6 of 37 documents touched, 2 contaminated",
        "Sealed test: 1.0 % of 9 000 n-grams found, 6 of 37 documents touched, 0 contaminated",
        "3 too short to measure",
    ):
        assert words in told


def test_contamination_tells_overlap_before_exclusion() -> None:
    plain = plain_manifest()
    sets = plain["contamination"]["sets"]
    plain["contamination"]["sets_before"] = {"test": {**sets["test"], "contaminated": 7}}
    told = contamination(accounted(account(seal(plain))))
    assert "Before documents were left out for it: Sealed test" in told
    assert "7 contaminated" in told


def test_contamination_without_near_duplicates_says_so() -> None:
    plain = plain_manifest()
    plain["stages"] = plain["stages"][:2]
    assert "near-duplicates were not looked for" in contamination(accounted(account(seal(plain))))


def test_overlap_with_what_a_run_was_served_is_told_where_it_was_measured() -> None:
    assert "served" not in contamination(accounted())
    log = accounted()
    overlap = SetOverlap(
        documents=40, ngrams=1000, found=20, touched=3, contaminated=1, unmeasured=2
    )
    served = ServedOverlap(
        ngram=13, threshold=0.5, one_in=1, windows=900, measured_windows=300, sets={"test": overlap}
    )
    for entry in log.found:
        if entry.kind == "run_ended" and entry.body.outcome == "completed":
            object.__setattr__(entry, "body", entry.body.model_copy(update={"served": served}))
    told = contamination(log)
    assert "6 completed runs drew (a sample of it, so a lower bound)" in told
    assert "sealed test at most 2.0 % of n-grams, 1 document contaminated" in told
    made_of = composition(experiment_facts(log, EXPERIMENT))
    assert made_of is not None
    assert {row.value[1:] for row in made_of.served} == {
        ("300 of 900", "sealed test", "2.0\u202f%", "3", "1")
    }


def test_composition_states_every_filter_with_its_threshold_and_what_it_left_out() -> None:
    made_of = composition(experiment_facts(accounted(), EXPERIMENT))
    assert made_of is not None
    told = {
        line.label: line.text.replace("\u00a0", " ").replace("\u202f", " ")
        for line in made_of.filters
    }
    assert "threshold 0.8" in told["Near-duplicates"]
    assert "9 documents left out, 11 kB (code 8 and docs 1)" in told["Near-duplicates"]
    assert "score 0.92" in told["Language"]
    assert told["Not applied"] == "No quality or toxicity filter."
    assert told["Document length"].endswith("8 documents cut, 2.5 kB of text.")
    assert {"Document length", "Splits", "Tokenizer"} < set(told)


def test_composition_says_where_labels_are_the_sources_own() -> None:
    plain = plain_manifest()
    plain["config"]["sources"]["docs"]["language_field"] = "lang"
    made_of = composition(experiment_facts(accounted(account(seal(plain))), EXPERIMENT))
    assert made_of is not None
    told = {line.label: line.text for line in made_of.filters}["Language"]
    assert "Of docs the labels are as the source says and were not checked." in told
    assert "labels not checked" not in told


def test_chronicle_has_the_tables_of_an_account_and_without_one_none() -> None:
    with_account = chronicle(experiment_facts(accounted(), EXPERIMENT))
    html, markdown = chronicle_html(with_account), chronicle_markdown(with_account)
    for caption in (
        "Composition by domain, language and split, as kept.",
        "What each stage left out.",
        "Documents by licence, as the sources state it.",
        "Share of the 1,000 most frequent words",
    ):
        assert caption in html
        assert caption in markdown
    before = chronicle_html(chronicle(experiment_facts(sample_log(), EXPERIMENT)))
    assert "What each stage left out" not in before
    assert "Near-duplicates and shared passages across the splits were not measured" in before
