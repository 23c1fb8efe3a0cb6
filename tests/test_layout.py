"""Which folders a lab has, and which names may become paths."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InvalidFileError, NotFoundError
from workbench.layout import MAX_SLUG, Layout, find_lab, safe_name, slug


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("0001-first", "0002-second-thing", "0012-twelfth", "notes", "3-short"):
        (tmp_path / "experiments" / name).mkdir(parents=True)
    (tmp_path / "workbench.toml").write_text("", "utf-8")
    return Layout(root=tmp_path)


@pytest.mark.parametrize("name", ["1", "0001", "0001-first", "0001-first/", " 1 "])
def test_experiment_is_found_by_number_or_name(layout: Layout, name: str) -> None:
    assert layout.experiment(name).name == "0001-first"


@pytest.mark.parametrize("name", ["3", "first", "notes", "../0001-first", "", "0001-FIRST", "²"])
def test_experiment_unknown_is_refused_with_the_known_ones(layout: Layout, name: str) -> None:
    with pytest.raises(NotFoundError, match="0002-second-thing") as refused:
        layout.experiment(name)
    assert repr(name) in refused.value.message
    assert "workbench propose" in refused.value.remedy


def test_experiment_ambiguous_number_is_refused(layout: Layout) -> None:
    (layout.experiments / "0001-again").mkdir()
    with pytest.raises(NotFoundError, match="ambiguous"):
        layout.experiment("1")
    assert layout.experiment("0001-again").name == "0001-again"


def test_experiment_folders_of_a_lab_without_any_are_none(tmp_path: Path) -> None:
    assert Layout(root=tmp_path).experiment_folders() == []


def test_find_lab_looks_above_the_folder(layout: Layout) -> None:
    inside = layout.experiments / "0001-first"
    assert find_lab(inside) == Layout(root=layout.root.resolve())


def test_find_lab_outside_of_any_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"workbench\.toml") as refused:
        find_lab(tmp_path)
    assert refused.value.remedy == "workbench init DIR"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Does code help?", "does-code-help"),
        ("Über große λ", "uber-groe"),
        ("../../etc/passwd", "etc-passwd"),
        ("a\x00b\nc", "a-b-c"),
        ("x" * 99, "x" * MAX_SLUG),
    ],
)
def test_slug_is_plain_words(title: str, expected: str) -> None:
    assert slug(title) == expected


@pytest.mark.parametrize("title", ["", "???", "λ", "日本"])
def test_slug_of_nothing_is_refused(title: str) -> None:
    with pytest.raises(InvalidFileError, match="no ASCII letter or digit"):
        slug(title)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_slug_can_always_be_one_path_component(title: str) -> None:
    """B8: whatever the title."""
    try:
        made = slug(title)
    except InvalidFileError:
        return
    assert safe_name(made) == made
    assert len(made) <= MAX_SLUG
    assert Path(made).name == made


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "%2e%2e/x", "x#/../..", "..", ".", "", "a/b", "a\\b", "a?b", "a b",
     "a\n", "-a", ".a", "a..b", "x" * 121, "é"],
)  # fmt: skip
def test_safe_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    """B8."""
    with pytest.raises(InvalidFileError, match="cannot be a file name"):
        safe_name(name)


@pytest.mark.parametrize("name", ["a", "0001-x", "run_1", "seed-0", "lr=0.1", "x" * 120])
def test_safe_name_of_plain_words_is_returned(name: str) -> None:
    assert safe_name(name) == name
