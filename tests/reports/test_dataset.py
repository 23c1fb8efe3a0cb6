"""The report on a corpus: its facts, its page and its JSON, from a manifest alone."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.reports.corpora import HOSTILE, hostile_manifest, plain_manifest, sample_manifest
from workbench.data.manifest import Manifest, read_manifest, seal, write_manifest
from workbench.reports.dataset.facts import data_facts, data_json
from workbench.reports.dataset.page import data_page, report_folder
from workbench.reports.dataset.summary import summary
from workbench.reports.dataset.wording import settings_in_words
from workbench.reports.render import data_html
from workbench.reports.site import write_data_report
from workbench.reports.untrusted import excerpt, visible


def html(manifest: Manifest) -> str:
    return data_html(data_page(data_facts(manifest)))


class Page(HTMLParser):
    """Collects what a browser would take for elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_waterfall_goes_from_what_was_read_to_what_is_kept() -> None:
    manifest = sample_manifest()
    facts = data_facts(manifest)
    last = facts.stages[-1]
    assert [stage.documents_in for stage in facts.stages] == [326, 324, 314, 309, 300]
    assert last.documents_in - last.documents_removed == facts.documents
    assert last.bytes_in - last.bytes_removed == facts.bytes
    for before, after in zip(facts.stages, facts.stages[1:], strict=False):
        assert before.bytes_in - before.bytes_cut - before.bytes_removed == after.bytes_in


def test_duplicates_are_told_apart_by_kind_and_by_where_the_kept_one_is() -> None:
    code, docs = data_facts(sample_manifest()).duplicates
    assert (code.exact, code.near) == ({"code": 7, "docs": 3}, {"code": 8})
    assert (docs.exact, docs.near) == ({}, {"code": 1})


def test_summary_has_five_lines_with_the_numbers_that_matter() -> None:
    told = {line.label: line.text for line in summary(data_facts(sample_manifest()))}
    assert list(told) == ["Holds", "Left out", "Frequent words", "Contamination", "Licences"]
    assert "300" in told["Holds"]
    assert "near-duplicates 3.6" in told["Left out"]
    assert told["Frequent words"].endswith("docs 50.0\u202f% as read, 49.0\u202f% kept.")
    assert "in 1\u00a0language and 1\u00a0programming language." in told["Holds"]
    assert re.search(r"validation 1\.0.% of n-grams, 2 of 37.documents", told["Contamination"])
    assert "86.7" in told["Licences"]


@pytest.mark.parametrize(
    "words",
    [
        "near-duplicate of code",
        "threshold\u00a00.8; words of an n-gram\u00a05; bands\u00a020; rows\u00a08; seed\u00a01",
        "One n-gram in 4 was looked for",
        "Drawn at decay 0.992",
        "within the domain",
        "across domains",
        "not stated",
        "sha256:near_duplicates",
        "A paraphrase",
        "identified as nl",
    ],
)
def test_page_states(words: str) -> None:
    assert words in "".join(Page(html(sample_manifest())).words)


def test_page_is_whole_in_itself() -> None:
    page = Page(html(sample_manifest()))
    assert {"script", "img", "iframe", "link", "form"}.isdisjoint(page.tags)
    assert all(link.startswith("#") for link in page.links)
    assert "default-src &#39;none&#39;" in html(sample_manifest()) or "default-src 'none'" in html(
        sample_manifest()
    )


def test_hostile_text_is_shown_and_never_obeyed() -> None:
    text = html(hostile_manifest())
    page = Page(text)
    plain = Page(html(sample_manifest()))
    assert set(page.tags) == set(plain.tags)
    assert {"script", "img"}.isdisjoint(page.tags)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>window.hit" in "".join(page.words)
    assert "\\x1b[2J\\u202e" in "".join(page.words)


def test_json_is_strict_sorted_ascii_and_holds_the_hostile_text_as_text() -> None:
    text = data_json(data_facts(hostile_manifest()))
    assert text.isascii()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert text == json.dumps(found, indent=1, sort_keys=True) + "\n"
    (sample,) = found["waterfall"][1]["domains"][0]["samples"]
    assert sample["excerpt"] == HOSTILE
    assert found["natural_shares"] == {"code": 2 / 3, "docs": 1 / 3}


def test_json_of_a_value_that_is_not_finite_is_null() -> None:
    plain = plain_manifest()
    plain["heads"]["code"]["weighted"]["0.992"] = float("nan")
    found = json.loads(data_json(data_facts(seal(plain))))
    assert found["heads"]["code"]["weighted"]["0.992"] is None


def test_report_is_the_same_from_a_fresh_manifest_and_from_the_file(tmp_path: Path) -> None:
    plain = plain_manifest()
    plain["config"]["sources"] = dict(reversed(plain["config"]["sources"].items()))
    plain["stages"][0]["settings"]["from"] = {"b": 1, "a": {"d": 0.5, "c": 2}}
    plain["stages"][0]["findings"] = {"z": {"b": 1, "a": 2.5}}
    fresh = seal(plain)
    write_manifest(fresh, tmp_path)
    read = read_manifest(tmp_path)
    assert html(fresh) == html(read)
    assert data_json(data_facts(fresh)) == data_json(data_facts(read))


def test_report_writes_both_files_the_same_each_time(tmp_path: Path) -> None:
    facts = data_facts(sample_manifest())
    folder = report_folder(facts.manifest, tmp_path)
    digits = facts.manifest.fingerprint.removeprefix("sha256:")[:8]
    assert folder == tmp_path / "data" / f"mixed-v2-{digits}"
    paths = write_data_report(facts, folder)
    before = [path.read_bytes() for path in paths]
    assert [path.name for path in paths] == ["data.html", "data.json"]
    assert [path.read_bytes() for path in write_data_report(facts, folder)] == before
    assert sorted(path.name for path in folder.iterdir()) == ["data.html", "data.json"]


def bare(**changed: Any) -> Manifest:
    """Return the manifest of a corpus without any optional stage, word count or overlap."""
    plain = plain_manifest()
    plain["stages"] = plain["stages"][:1]
    plain["config"].pop("language")
    plain["config"].pop("near_duplicates")
    plain["contamination"] = {"ngram": 13, "threshold": 0.5, "one_in": 1, "sets": {}}
    return seal({**plain, "heads": {}, **changed})


def test_page_of_a_corpus_without_optional_stages_says_what_was_not_done() -> None:
    words = "".join(Page(html(bare())).words)
    for told in (
        "No duplicate was found. Near-duplicates were not looked for.",
        "No words were counted.",
        "No text was matched to a reference.",
        "No evaluation set was measured.",
        "All n-grams were looked for.",
    ):
        assert told in words


def test_composition_of_many_languages_is_folded_and_its_bars_are_few() -> None:
    plain = plain_manifest()
    cell = plain["composition"][0]
    plain["composition"] = [{**cell, "language": f"l{i:03}", "bytes": 900 + i} for i in range(60)]
    text = html(seal(plain))
    assert "All 60 cells of the composition" in text
    assert "47 more" in text


def test_visible_spells_out_what_a_screen_would_obey() -> None:
    assert visible("a\x1b[31m\u202eb\u2066\x00é漢\n") == "a\\x1b[31m\\u202eb\\u2066\\x00é漢\n"
    assert excerpt("  one\n two\tthree ", 9) == "one two …"


def test_language_that_the_source_says_is_told_as_not_checked() -> None:
    plain = plain_manifest()
    assert "not checked by the model" not in "".join(Page(html(seal(plain))).words)
    plain["config"]["sources"]["docs"]["language_field"] = "lang"
    words = "".join(Page(html(seal(plain))).words)
    assert "Labels as the source says in its column “lang”; not checked by the model" in words
    assert "In docs the source’s labels were taken as they are." in words
    plain["config"]["sources"]["docs"]["content"] = "code"
    assert "not checked by the model" not in "".join(Page(html(seal(plain))).words)


def test_documents_in_no_known_language_are_counted_apart() -> None:
    plain = plain_manifest()
    plain["domains"]["docs"]["content"] = "prose"
    assert "in 1\u00a0language and 1\u00a0programming language." in holds(plain)
    plain["composition"][-1]["language"] = "unknown"
    assert "programming language; 10\u00a0documents in no known language." in holds(plain)


def holds(plain: dict[str, Any]) -> str:
    return summary(data_facts(seal(plain)))[0].text


@pytest.mark.parametrize(("exclude", "left", "told"), [(True, 2, 2), (True, 0, 0), (False, 2, 0)])
def test_documents_still_contaminated_after_exclusion_are_explained(
    exclude: bool, left: int, told: int
) -> None:
    plain = plain_manifest()
    plain["config"]["contamination"] = {"exclude": exclude}
    plain["contamination"]["sets"]["validation"]["contaminated"] = left
    words = "".join(Page(html(seal(plain))).words)
    assert words.count("a training text goes only when it alone holds") == told


def test_nested_settings_are_left_to_the_json_in_a_whole_sentence() -> None:
    found = settings_in_words({"seed": 1, "sources": {"a": {"b": 1}}, "kept": [{"a": 1}], "n": []})
    assert found == "seed\u00a01; n\u00a0none; see data.json for: kept and sources"
    told = settings_in_words({"decided_by": '{"splits": 1}', "features": "262144"})
    assert told == "features\u00a0262\u202f144; see the corpus’s manifest for: decided by"
