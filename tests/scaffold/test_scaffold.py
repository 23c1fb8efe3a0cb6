"""What a new lab contains."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from workbench.data.config import CorpusConfig
from workbench.errors import ConflictError, InvalidFileError
from workbench.layout import CONFIG_NAME, find_lab
from workbench.proxies.recipe import FullScale, Recipe
from workbench.proxies.recipe_file import load_full, load_recipe
from workbench.registry.schema_faults import comment_hints
from workbench.scaffold.forms import blank_form, full_text
from workbench.scaffold.lab import _ORIGIN, DEFAULT_RECIPE, filled, quoted, template, write_lab
from workbench.settings import Settings, load_settings
from workbench.training.config import RunConfig


def test_write_lab_new_folder_is_a_lab(tmp_path: Path) -> None:
    written = write_lab(tmp_path / "new" / "lab", name='Ünsere "Werkstatt"', origin="ex.org/lab")
    layout = find_lab(tmp_path / "new" / "lab" / "experiments")
    settings = load_settings(layout.config)
    assert (settings.name, settings.origin) == ('Ünsere "Werkstatt"', "ex.org/lab")
    assert layout.config in written
    assert layout.root / DEFAULT_RECIPE in written
    for folder in (layout.experiments, layout.proxies, layout.registry, layout.reports):
        readme = (folder / "README.md").read_text("utf-8")
        assert f"`workbench.{folder.name}`" in readme
        assert 6 <= readme.count("\n") <= 16


def test_write_lab_state_folder_never_shows_in_git(tmp_path: Path) -> None:
    write_lab(tmp_path, name="lab", origin="ex.org/lab")
    (tmp_path / ".gitignore").write_text("", "utf-8")  # as in a repository with its own
    (tmp_path / ".workbench" / "ledger.db").write_text("x", "utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".workbench" not in status.stdout
    assert "workbench.toml" in status.stdout


def test_write_lab_copy_of_a_store_in_the_root_is_not_committed(tmp_path: Path) -> None:
    write_lab(tmp_path, name="lab", origin="ex.org/lab")
    (tmp_path / "backup.db").write_text("x", "utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ignored = ["git", "-C", str(tmp_path), "check-ignore", "-q", "backup.db"]
    assert subprocess.run(ignored, check=False).returncode == 0


def test_write_lab_existing_files_stay_and_an_interrupted_call_can_be_repeated(
    tmp_path: Path,
) -> None:
    own = tmp_path / ".gitignore"
    own.write_text("mine\n", "utf-8")
    write_lab(tmp_path, name="lab", origin="ex.org/lab")
    (tmp_path / CONFIG_NAME).unlink()  # what an interrupted call leaves: all but the last file
    (tmp_path / DEFAULT_RECIPE).unlink()
    written = write_lab(tmp_path, name="lab", origin="ex.org/lab")
    assert own.read_text("utf-8") == "mine\n"
    assert written == (tmp_path / DEFAULT_RECIPE, tmp_path / CONFIG_NAME)


def test_write_lab_in_a_lab_or_over_a_file_is_refused(tmp_path: Path) -> None:
    write_lab(tmp_path, name="lab", origin="ex.org/lab")
    with pytest.raises(ConflictError, match="is a lab already"):
        write_lab(tmp_path, name="other", origin="ex.org/other")
    file = tmp_path / "file"
    file.write_text("x", "utf-8")
    with pytest.raises(ConflictError, match="is a file"):
        write_lab(file, name="lab", origin="ex.org/lab")


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("", "ex.org/lab"),
        (" ", "ex.org/lab"),
        ("a\nb", "ex.org/lab"),
        ("x" * 81, "ex.org/lab"),
        ("lab", "Ex.org"),
        ("lab", "ex"),
        ("lab", 'ex.org"\nactor = "x'),
        ("lab", "../lab"),
    ],
)
def test_write_lab_unusable_name_writes_nothing(tmp_path: Path, name: str, origin: str) -> None:
    with pytest.raises(InvalidFileError):
        write_lab(tmp_path / "lab", name=name, origin=origin)
    assert not (tmp_path / "lab").exists()


def test_origin_rule_is_that_of_the_settings() -> None:
    (pattern,) = [m.pattern for m in Settings.model_fields["origin"].metadata if m is not None]
    assert _ORIGIN.pattern.removesuffix(r"\Z") == pattern.removeprefix("^").removesuffix("$")


def test_config_template_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    values = {"name": quoted("lab"), "origin": quoted("ex.org/lab")}
    text = filled(template("workbench.toml"), values)
    everything = tomllib.loads(re.sub(r"(?m)^# (?=\w+ = )", "", text))
    assert set(everything) == set(Settings.model_fields)
    defaults = {
        k: f.default for k, f in Settings.model_fields.items() if isinstance(f.default, str)
    }
    assert {key: everything[key] for key in defaults} == defaults


def test_default_recipe_is_sound() -> None:
    recipe = load_recipe(template(DEFAULT_RECIPE), DEFAULT_RECIPE)
    assert list(recipe.corpus.sources) == ["code", "docs", "math"]
    assert [scale.name for scale in recipe.scales] == ["s1", "s2"]
    assert set(recipe.space) == {"mixture", "balance.weight", "phase_fractions"}
    assert recipe.control()["mixture"] == "natural"


def test_full_form_is_sound() -> None:
    full = load_full(full_text(blank_form()), "full.yaml")
    assert full.extends == "blank@1"


def test_full_form_explains_every_field() -> None:
    hints = comment_hints(template("experiments/full.yaml"))
    assert all(hints[field] for field in FullScale.model_fields)


def test_default_recipe_shows_every_field_that_has_to_be_given() -> None:
    text = template(DEFAULT_RECIPE)
    for model in (Recipe, CorpusConfig, RunConfig):
        for field in _required(model):
            assert re.search(rf"(?m)^ *(?:- )?{field}:", text), f"{model.__name__}.{field}"


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def test_filled_unknown_name_is_an_error_and_values_are_not_expanded() -> None:
    assert filled("{{a}}", {"a": "{{b}}"}) == "{{b}}"
    with pytest.raises(KeyError):
        filled("{{nowhere}}", {})


def test_scaffold_and_checks_import_nothing_heavy() -> None:
    code = (
        "import sys, workbench.scaffold.forms, workbench.experiments.checking\n"
        "heavy = {'torch', 'lightning', 'mlflow', 'optuna', 'datasets', 'sqlalchemy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "[]"
