"""Recipes and full-scale files: what is accepted, and how each refusal reads."""

from collections.abc import Callable

import pytest

from workbench.errors import Fault, InvalidFileError
from workbench.proxies.recipe_file import load_corpus, load_full, load_recipe, parsed_recipe
from workbench.scaffold.lab import DEFAULT_RECIPE, template

TEXT = template(DEFAULT_RECIPE)
PHASES = "  phase_fractions:\n    #"


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(InvalidFileError) as refused:
        load_recipe(text, "r.yaml")
    return refused.value.faults


def line_of(text: str, fragment: str) -> int:
    return text[: text.index(fragment)].count("\n") + 1


def test_load_recipe_default_gives_its_scales() -> None:
    recipe = load_recipe(TEXT, "r.yaml")
    assert recipe.at_scale("s1") == recipe.base
    assert recipe.at_scale("s2").model.d_model == 96


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        # types and names
        ("steps: 120", "stepz: 120", "  stepz", "unknown key 'base.stepz'"),
        ("steps: 120", "steps: many", "  steps", "base.steps must be a whole number, not 'many'"),
        ("phases@1", "phases", "recipe: mixture", "does not have the form"),
        ("kind: log_uniform", "kind: log", "  balance.weight:", "must have as kind one of"),
        ("mixture: natural", "mixture: all", "  mixture: all", "must be a mapping"),
        # simplex points
        ("stable: 0.6", "stable: 0.7", "  phase_fractions: {", "sums to 1.1, not 1: multiply"),
        ("mixture: natural", "mixture: {code: 1.2, docs: -0.2}", "  mixture: {", "lie in [0, 1]"),
        ("mixture: natural", "mixture: {code: 0.5, law: 0.5}", "  mixture: {", "'law'"),
        ("domains: [code, docs, math]", "domains: [code, law]", "    domains", "names 'law'"),
        ("minimum: 0.05", "minimum: 0.4", "  mixture:\n    # A point", "leaves nothing to vary"),
        # the corpus
        ('"builtin:code"', '"builtin:lisp"', "      source: ", "is not built in"),
        ('"builtin:code"', '"text:"', "      source: ", "names nothing after ':'"),
        ('"builtin:code"', '"ftp:x"', "      source: ", "source kind 'ftp' is unknown"),
        ("vocab_size: 2048\n    d_", "vocab_size: 99\n    d_", "vocab_size: 99", "at least 257"),
        ("vocab_size: 2048\n    d_", "vocab_size: 999\n    d_", "vocab_size: 999", "is not the"),
        # scales
        ("- name: s2", "- name: s1", "  - name: s1\n    #", "'s1' is defined twice"),
        ("model.d_model: 96", "model.dmodel: 96", "      model.dmodel", "is not a key"),
        ("model.d_model: 96", "model.d_model: 97", "      model.d_model", "num_heads 2"),
        ("model.d_model: 96", "model.d_model: wide", "      model.d_model", "not 'wide'"),
        ("model.d_model: 96", "model: 96", "      model: 96", "holds several keys"),
        ("model.d_model: 96", "balance.weight: 1", "      balance.weight", "the recipe's space"),
        ("96\n      steps: 160", "32\n      steps: 9", "  - name: s2", "no more than"),
        # the space
        ("  balance.weight:\n", "  balance.wait:\n", "  balance.wait", "not a key"),
        ("  balance.weight:\n", "  steps:\n", "    kind: log_uniform", "must be a whole number"),
        ("    low: 1.0e-4", "    low: 1.0", "  balance.weight:\n", "low 1 is not below high 0.1"),
        ("    high: 1.0e-1", "    high: 100.0", "    high: 100.0", "reaches 100.0"),
        ("    kind: log_uniform", "    kind: uniform\n    step: 1", "    step: 1", "unknown key"),
        ("warmup: [0.02, 0.2]", "warmup: [0.2, 0.02]", PHASES, "not rising"),
        ("warmup: [0.02, 0.2]", "warmup: [0.02, 0.7]", PHASES, "below 0"),
        ("    rest: stable", "    rest: cooldown", PHASES, "the base's phases"),
        ("    kind: fractions", "    kind: simplex", PHASES, "domains is missing"),
    ],
)  # fmt: skip
def test_load_recipe_fault_names_its_line(old: str, new: str, at: str, message: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    found = [fault for fault in faults_of(text) if message in fault.message]
    assert [fault.where for fault in found] == [f"r.yaml:{line_of(text, at)}"], faults_of(text)


def test_load_recipe_unknown_source_kind_names_the_nearest_and_all() -> None:
    (fault,) = faults_of(TEXT.replace('"builtin:code"', '"parket:x"', 1))
    assert "source kind 'parket' is unknown" in fault.message
    kinds = "builtin:, text:, jsonl:, parquet:, hub:"
    assert fault.remedy == f"did you mean 'parquet:'? the kinds are {kinds}"


QUALITY = """  quality:
    domains: [code, dox]
    reference: {source: "builtin:docs", max_bytes: 1000}
  contamination:
    #"""


@pytest.mark.parametrize("load", [load_recipe, load_corpus])
def test_quality_of_a_domain_that_is_not_there_names_its_line_and_the_nearest(
    load: Callable[[str, str], object],
) -> None:
    text = TEXT.replace("  contamination:\n    #", QUALITY, 1)
    if load is load_corpus:
        text = text[text.index("\ncorpus:") : text.index("# The control arm")]
    text = text.replace('"builtin:math"', '"builtin:maths"')
    with pytest.raises(InvalidFileError) as refused:
        load(text, "r.yaml")
    source, quality = refused.value.faults
    assert "is not built in" in source.message
    assert quality.where == f"r.yaml:{line_of(text, '    domains: [code, dox]')}"
    assert quality.message == "quality.domains names 'dox', which is no domain of the corpus"
    assert quality.remedy == "known here: code, docs, math"


def test_load_recipe_simplex_kind_for_another_key_is_refused() -> None:
    text = TEXT.replace("  mixture:\n    # A point", "  balance.z_loss_weight:\n    # A point", 1)
    assert any("is for the key 'mixture'" in fault.message for fault in faults_of(text))


def test_load_recipe_several_faults_are_told_at_once_in_order() -> None:
    text = TEXT.replace("stable: 0.6", "stable: 0.7").replace("minimum: 0.05", "minimum: 0.4")
    text = text.replace("model.d_model: 96", "model.d_model: 97").replace("lr: 0.003", "lr: fast")
    faults = faults_of(text)
    lines = [int(fault.where.rpartition(":")[2]) for fault in faults]
    assert lines == sorted(lines)
    # The base does not fit its type, so that scales are not compared with it; the rest is told.
    assert len(faults) == 3
    text = text.replace("lr: fast", "lr: 0.003")
    assert len(faults_of(text)) == 3


def test_load_recipe_sound_base_with_wrong_shares_does_not_hide_scale_faults() -> None:
    text = TEXT.replace("stable: 0.6", "stable: 0.7").replace("d_model: 96", "d_model: 97")
    assert len(faults_of(text)) == 2


def test_load_recipe_override_below_another_is_refused_without_a_crash() -> None:
    text = TEXT.replace("      model.d_model: 96", "      model: 3\n      model.d_model: 96")
    assert any("holds several keys" in fault.message for fault in faults_of(text))


def test_parsed_recipe_accepts_what_new_files_would_be_asked_to_change() -> None:
    text = TEXT.replace("minimum: 0.05", "minimum: 0.4")
    assert parsed_recipe(text, "r.yaml").recipe == "mixture-lambda-phases@1"


def test_load_full_faults_are_told_with_their_lines() -> None:
    text = 'full: "x"\nextend: y@1\noverrides: 3\n'
    with pytest.raises(InvalidFileError, match=r"full\.yaml has 4 faults") as refused:
        load_full(text, "full.yaml")
    assert [fault.where for fault in refused.value.faults] == [
        "full.yaml:1", "full.yaml:1", "full.yaml:2", "full.yaml:3",
    ]  # fmt: skip


def test_load_recipe_vocabulary_that_training_would_refuse_is_a_fault() -> None:
    text = TEXT.replace("    vocab_size: 2048\n    d_model", "    vocab_size: 4096\n    d_model", 1)
    assert text != TEXT
    messages = [fault.message for fault in faults_of(text)]
    assert "model.vocab_size 4096 is not the tokenizer's 2048" in messages


def test_load_recipe_source_of_reference_or_evaluation_is_checked_like_a_domains() -> None:
    compared = """  quality:
    reference: {source: "builtin:prose", max_bytes: 1000}
    domains: [docs]
  contamination:
    evaluation:
      held: {source: "jsonl:", max_bytes: 1000}
"""
    text = TEXT.replace("  contamination:\n", compared, 1)
    assert text != TEXT
    told = {fault.message: fault.where for fault in faults_of(text)}
    assert told == {
        "source 'builtin:prose' is not built in": f"r.yaml:{line_of(text, 'builtin:prose')}",
        "source 'jsonl:' names nothing after ':'": "r.yaml:" + str(line_of(text, '"jsonl:"')),
    }
