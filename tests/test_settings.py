"""workbench.toml and the environment over it."""

from pathlib import Path

import pytest

from workbench.errors import InvalidFileError
from workbench.settings import absolute_url, default_keys_dir, load_settings

PLAIN = 'name = "lab"\norigin = "example.org/lab"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "workbench.toml"
    file.write_text(text, "utf-8")
    return file


def test_load_settings_defaults_stay_within_the_lab_but_for_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKBENCH_KEYS_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings = load_settings(written(tmp_path, PLAIN))
    for url in (settings.store_url, settings.mlflow_uri, settings.optuna_url):
        assert url.startswith("sqlite:///.workbench/")
    assert settings.keys_dir == tmp_path / "config" / "workbench" / "keys"
    assert settings.actor == "researcher"


def test_default_keys_dir_without_xdg_is_below_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/nowhere")
    assert default_keys_dir() == Path("/nowhere/.config/workbench/keys")


def test_load_settings_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_ACTOR", "bot")
    monkeypatch.setenv("WORKBENCH_STORE_URL", "sqlite:////elsewhere/ledger.db")
    settings = load_settings(written(tmp_path, PLAIN + 'actor = "lead"\n'))
    assert settings.actor == "bot"
    assert settings.store_url == "sqlite:////elsewhere/ledger.db"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PLAIN + 'namex = "x"\n', "namex"),
        ('origin = "example.org/lab"\n', "name"),
        ('name = "lab"\norigin = "Über"\n', "origin"),
        ('name = ""\norigin = "example.org/lab"\n', "name"),
        (PLAIN + "actor = 3\n", "actor"),
        (PLAIN + PLAIN, "TOML"),
        ("name = [\n", "TOML"),
    ],
)
def test_load_settings_unusable_file_is_refused_with_the_key(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(InvalidFileError, match=r"workbench\.toml") as refused:
        load_settings(written(tmp_path, text))
    assert named in str(refused.value)


def test_load_settings_shows_every_fault_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError) as refused:
        load_settings(written(tmp_path, 'origin = "Über"\nnamex = "x"\n'))
    assert len(refused.value.faults) == 3


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///.workbench/a.db", "sqlite:////lab/.workbench/a.db"),
        ("sqlite:////elsewhere/a.db", "sqlite:////elsewhere/a.db"),
        ("postgresql://host/lab", "postgresql://host/lab"),
        ("http://host:5000", "http://host:5000"),
    ],
)
def test_absolute_url_resolves_only_relative_files(url: str, expected: str) -> None:
    assert absolute_url(url, Path("/lab")) == expected
