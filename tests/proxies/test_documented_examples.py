"""The examples of docs/data.md are recipes that this version accepts, and show every option."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from workbench.data.config import CorpusConfig, SourceConfig
from workbench.proxies.recipe_file import load_corpus, load_recipe
from workbench.scaffold.lab import DEFAULT_RECIPE, template

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


def example(name: str) -> str:
    found = re.findall(
        rf"<!-- example: {name} -->\n```yaml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL
    )
    (text,) = found
    return str(text)


def test_example_of_a_corpus_is_accepted_and_has_every_section_and_option() -> None:
    corpus = load_corpus(example("corpus"), "data.md")
    assert corpus.quality is not None
    assert corpus.exclude
    assert corpus.contamination.evaluation
    assert set(CorpusConfig.model_fields) - corpus.model_fields_set == {"deduplicate"}
    used = set().union(*(source.model_fields_set for source in corpus.sources.values()))
    assert set(SourceConfig.model_fields) - used == {"split"}


def test_example_of_a_run_is_accepted_in_a_recipe_and_has_every_option() -> None:
    yaml = YAML(typ="safe")
    recipe: dict[str, Any] = yaml.load(template(DEFAULT_RECIPE))
    part: dict[str, Any] = yaml.load(example("run"))
    recipe["base"].update(part["base"])
    recipe["space"].update(part["space"])
    found = load_recipe(json.dumps(recipe), "data.md")
    assert found.base.document_weights is not None
    assert found.base.availability is not None
    assert found.base.batch.documents == "masked"
    assert found.base.phases[-1].mixture is not None
    assert found.space["mixture"].maximum == {"math": 0.4}  # type: ignore[union-attr]


@pytest.mark.parametrize("section", ["corpus", "base", "scales", "space"])
def test_template_points_from_each_section_to_what_else_there_is(section: str) -> None:
    text = template(DEFAULT_RECIPE).partition(f"\n{section}:\n")[2]
    keys = re.split(r"^\w", text, maxsplit=1, flags=re.MULTILINE)[0]
    assert len(re.findall(r"^  # More keys: .*schema recipe\)$", keys, re.MULTILINE)) == 1
