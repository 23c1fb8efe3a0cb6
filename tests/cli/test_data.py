"""``workbench data``: build a corpus, and see what is in it, left out of it and served from it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, Said
from tests.labs import RECIPE, RECIPE_PATH, LabFolder

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e<script>hit()</script>"
CORPUS_FILE = "proxies/corpus.json"
COMMANDS = ("build", "report", "rejects", "mixture", "at", "export")


@pytest.fixture
def reader(filed_lab: LabFolder) -> LabFolder:
    """A lab with a file of nothing but a corpus, which has duplicates and a hostile text."""
    texts = filed_lab.root / "texts" / "docs.jsonl"
    twice = json.loads(texts.read_text("utf-8").splitlines()[0])["text"]
    nearly = f"{twice} and one"
    copies = [twice, nearly, f"{HOSTILE} {HOSTILE}", f"{HOSTILE} {HOSTILE}"]
    with texts.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in copies)
    corpus = {**RECIPE["corpus"], "name": "reader@3", "near_duplicates": {"threshold": 0.7}}
    (filed_lab.root / CORPUS_FILE).write_text(json.dumps({"corpus": corpus}), "utf-8")
    return filed_lab


def built(workbench: Command, lab: LabFolder, *arguments: str) -> Said:
    said = workbench("data", "build", CORPUS_FILE, *arguments, lab=lab)
    assert said.code == 0, said.err
    return said


def report_of(lab: LabFolder) -> Path:
    """Return the page of the one report that was written."""
    (page,) = (lab.root / "reports" / "data").glob("reader-v3-*/data.html")
    return page


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_says_something(workbench: Command, command: str) -> None:
    said = workbench("data", command, "--help")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80


def test_build_tells_stages_thresholds_composition_and_where_the_report_is(
    reader: LabFolder, workbench: Command
) -> None:
    said = built(workbench, reader)
    assert said.out.startswith("reader@3  sha256:")
    for label in ("holds", "left out", "frequent words", "contamination", "licences"):
        assert re.search(rf"^  {label}\s", said.out, re.MULTILINE)
    for stage in ("Reading", "Exact duplicates", "Near-duplicates", "Contamination"):
        assert re.search(rf"^{stage}\s+\d", said.out, re.MULTILINE)
    assert re.search(r"near_duplicates\s+threshold\s0\.7; .*bands\s\d+; rows\s\d+", said.out)
    for split in ("train", "validation", "test"):
        assert len(re.findall(rf"^{split}\s", said.out, re.MULTILINE)) == 2
    (page,) = re.findall(r"^Report: (.*data\.html)$", said.out, re.MULTILINE)
    (fingerprint,) = re.findall(r"^reader@3  sha256:(\w{8})", said.out)
    folder = reader.root / "reports" / "data" / f"reader-v3-{fingerprint}"
    assert Path(page).parent == folder
    assert Path(page).is_file()


def test_build_again_gives_the_same_corpus_and_report(
    reader: LabFolder, workbench: Command
) -> None:
    first = built(workbench, reader)
    page = report_of(reader)
    before = page.read_bytes()
    assert built(workbench, reader).out == first.out
    assert page.read_bytes() == before


def test_build_of_other_content_under_one_name_says_what_differs_and_keeps_both_reports(
    reader: LabFolder, workbench: Command
) -> None:
    assert "Note:" not in built(workbench, reader).out
    plain: dict[str, Any] = json.loads((reader.root / CORPUS_FILE).read_text("utf-8"))
    plain["corpus"]["near_duplicates"]["threshold"] = 0.9
    (reader.root / CORPUS_FILE).write_text(json.dumps(plain), "utf-8")
    (note,) = re.findall(r"^Note: .*$", built(workbench, reader).out, re.MULTILINE)
    assert "reader@3 was built here with other content before" in note
    assert "what differs: near_duplicates.threshold." in note
    assert note.endswith("write reader@4.")
    assert len([*(reader.root / "reports" / "data").glob("reader-v3-*/data.json")]) == 2


def test_json_of_rejects_is_ascii(reader: LabFolder, workbench: Command) -> None:
    built(workbench, reader)
    said = workbench("data", "rejects", CORPUS_FILE, "exact_duplicates", "--json", lab=reader)
    assert said.out.isascii()
    assert "\\u202e" in said.out
    assert "\u202e" in json.loads(said.out)[1]["samples"][0]["excerpt"]


@pytest.mark.parametrize("arguments", [["mixture"], ["at", "1"]])
def test_run_of_a_file_with_only_a_corpus_is_refused_with_what_it_lacks(
    reader: LabFolder, workbench: Command, arguments: list[str]
) -> None:
    command, *rest = arguments
    said = workbench("data", command, CORPUS_FILE, *rest, lab=reader)
    assert said.code == 3
    assert "holds only a corpus: this needs a recipe with a run (base, scales, space)" in said.err
    assert "is missing" not in said.err


def test_report_says_where_it_is_and_prints_strict_json(
    reader: LabFolder, workbench: Command
) -> None:
    built(workbench, reader)
    said = workbench("data", "report", CORPUS_FILE, "--out", "elsewhere", lab=reader)
    assert said.out.splitlines() == ["elsewhere/data.html", "elsewhere/data.json"]
    printed = workbench("data", "report", CORPUS_FILE, "--json", lab=reader).out
    assert printed == (reader.root / "elsewhere" / "data.json").read_text("utf-8")
    found = json.loads(printed, parse_constant=lambda name: pytest.fail(name))
    first, *_, last = found["waterfall"]
    assert first["documents_in"] == 164
    assert last["documents_in"] - last["documents_removed"] == found["totals"]["documents"]
    assert last["bytes_in"] - last["bytes_removed"] == found["totals"]["bytes"]


def test_rejects_show_the_text_and_obey_nothing_in_it(
    reader: LabFolder, workbench: Command
) -> None:
    built(workbench, reader)
    said = workbench("data", "rejects", CORPUS_FILE, "exact_duplicates", lab=reader)
    assert said.code == 0
    assert "docs: 2 of 2 left out" in said.out
    assert "\\x1b[2J" in said.out
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    page = report_of(reader).read_text("utf-8")
    assert "&lt;script&gt;hit()" in page
    assert "<script" not in page


def test_rejects_name_what_was_kept_instead(reader: LabFolder, workbench: Command) -> None:
    built(workbench, reader)
    arguments = ["data", "rejects", CORPUS_FILE, "near-duplicates", "--domain", "docs", "--json"]
    (docs,) = json.loads(workbench(*arguments, lab=reader).out)
    assert (docs["domain"], docs["documents"]) == ("docs", 1)
    assert re.search(r"0\.\d+ of the 5-grams of both as \S+", docs["samples"][0]["why"])
    said = workbench("data", "rejects", CORPUS_FILE, "contamination", lab=reader)
    assert said.out == "contamination left nothing out\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rejects", CORPUS_FILE, "toxicity"], "those that did: read, exact_duplicates"),
        (["rejects", CORPUS_FILE, "read", "--domain", "web"], "it has code, docs"),
    ],
)
def test_rejects_of_what_is_not_there_are_refused_with_what_is(
    reader: LabFolder, workbench: Command, arguments: list[str], told: str
) -> None:
    built(workbench, reader)
    said = workbench("data", *arguments, lab=reader)
    assert said.code == 9
    assert told in said.err


@pytest.mark.parametrize("arguments", [["report"], ["rejects", "read"], ["export"], ["mixture"]])
def test_corpus_that_is_not_built_is_refused_with_the_command_that_builds_it(
    filed_lab: LabFolder, workbench: Command, arguments: list[str]
) -> None:
    command, *rest = arguments
    more = ["--croissant", "c.json"] if command == "export" else []
    said = workbench("data", command, RECIPE_PATH, *rest, *more, lab=filed_lab)
    assert said.code == 9
    assert "workbench data build" in said.err


def test_corpus_file_with_a_fault_is_refused_with_its_line(
    reader: LabFolder, workbench: Command
) -> None:
    plain: dict[str, Any] = json.loads((reader.root / CORPUS_FILE).read_text("utf-8"))
    plain["corpus"]["near_duplicates"]["threshold"] = 1.5
    plain["corpus"]["sources"]["docs"]["source"] = "builtin:poems"
    (reader.root / CORPUS_FILE).write_text(json.dumps(plain, indent=1), "utf-8")
    said = workbench("data", "build", CORPUS_FILE, lab=reader)
    assert said.code == 3
    assert re.search(rf"{CORPUS_FILE}:\d+.*threshold", said.err)


def test_mixture_tells_share_tokens_and_epochs_by_phase(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("data", "mixture", RECIPE_PATH, "--scale", "s1", lab=registered_lab)
    assert said.code == 0
    assert said.out.startswith("tiny@1 at s1 (one of 2 scales): 6 steps\n")
    assert len(re.findall(r"^(?:stable|decay)\s", said.out, re.MULTILINE)) == 4
    assert len(re.findall(r"^whole\srun\s+1-6\s", said.out, re.MULTILINE)) == 2
    assert "realised" in said.out.splitlines()[1]
    assert max(map(len, said.out.splitlines())) <= 80
    largest = workbench("data", "mixture", RECIPE_PATH, lab=registered_lab).out
    assert largest.startswith("tiny@1 at s2 (the largest of 2 scales): 8 steps\n")
    arguments = ["data", "mixture", RECIPE_PATH, "--scale", "s1", "--json"]
    found = json.loads(workbench(*arguments, lab=registered_lab).out)
    assert found["refusal"] == ""
    assert (found["run"], found["steps"]) == ("tiny@1 at s1 (one of 2 scales)", 6)
    assert sum(row["tokens"] for row in found["rows"]) == 6 * 2 * 16
    assert sum(row["tokens"] for row in found["total"]) == 6 * 2 * 16
    for rows in (found["rows"][:2], found["total"]):
        assert sum(row["realised"] for row in rows) == pytest.approx(1)
        assert all(row["epochs"] > 0 for row in rows)


def test_at_lists_the_samples_of_a_step_the_same_each_time(
    registered_lab: LabFolder, workbench: Command
) -> None:
    arguments = ["data", "at", RECIPE_PATH, "3", "--scale", "s1", "--seed", "7"]
    said = workbench(*arguments, lab=registered_lab)
    assert said.code == 0
    assert len(re.findall(r"^ +\d+  (?:code|docs)  epoch", said.out, re.MULTILINE)) == 2
    assert said.out.startswith("tiny@1 at s1 (one of 2 scales), seed 7: step 3 of 6\n")
    assert "document " in said.out
    assert workbench(*arguments, lab=registered_lab).out == said.out
    found = json.loads(workbench(*arguments, "--json", lab=registered_lab).out)
    assert [sample["row"] for sample in found] == [0, 1]
    assert all(sample["ids"] for sample in found)


def test_at_a_step_that_the_run_has_not_is_refused(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("data", "at", RECIPE_PATH, "7", "--scale", "s1", lab=registered_lab)
    assert said.code == 9
    assert "1 to 6" in said.err


@pytest.mark.usefixtures("one_thread")
def test_at_of_an_experiment_takes_the_promoted_configuration_and_its_seed(
    promoted_lab: LabFolder, workbench: Command
) -> None:
    arguments = ["data", "at", "1", "2", "--arm", "treatment", "--json"]
    first = workbench(*arguments, lab=promoted_lab)
    assert first.code == 0, first.err
    other = workbench(*arguments, "--seed-number", "1", lab=promoted_lab)
    assert json.loads(first.out) != json.loads(other.out)
    for wrong, code in ((["--seed-number", "99"], 9), (["--arm", "third"], 9)):
        assert workbench(*arguments, *wrong, lab=promoted_lab).code == code
    assert workbench("data", "at", "1", "2", lab=promoted_lab).code == 2


def test_at_of_an_experiment_without_a_promotion_is_refused(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("data", "at", "1", "2", "--arm", "control", lab=registered_lab)
    assert said.code == 9
    assert "workbench promote 0001" in said.err


def test_export_writes_json_ld(registered_lab: LabFolder, workbench: Command) -> None:
    said = workbench(
        "data", "export", RECIPE_PATH, "--croissant", "out/tiny.json", lab=registered_lab
    )
    assert said.out == "out/tiny.json\n"
    found = json.loads((registered_lab.root / "out" / "tiny.json").read_text("utf-8"))
    assert found["@type"] == "sc:Dataset"
    assert found["name"] == "tiny"
