import socket
from pathlib import Path
from typing import Any

import pytest

from tests.data.tables import rejected, written_table
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Table
from workbench.data.config import LanguageConfig
from workbench.data.filters.language import LanguageStage, identified, programming_language
from workbench.data.text.documents import excerpt
from workbench.data.workers import Workers

TEXTS = {
    "en": "The ship left the harbour early in the morning, and nobody on the quay noticed.",
    "de": "Das Schiff verließ den Hafen früh am Morgen, und niemand am Kai bemerkte es.",
    "fr": "Le navire quitta le port tôt, et personne ne remarqua que le capitaine était à terre.",
    "es": "El barco salió del puerto temprano por la mañana y nadie en el muelle lo notó.",
    "nl": "Het schip verliet vroeg in de ochtend de haven en niemand op de kade merkte het.",
    "ru": "Корабль покинул гавань рано утром, и никто на набережной этого не заметил.",
    "ja": "船は朝早く港を出たが、岸壁にいた人は誰も気づかなかった。",
    "zh": "这艘船一大早就离开了港口，码头上没有人注意到。",
}


def stage(config: LanguageConfig | None, **changes: Any) -> LanguageStage:
    plain: dict[str, Any] = {"holds": {"docs": "prose"}, "workers": Workers(), **changes}
    return LanguageStage(config, **plain)


def labels(table: Table, domain: str = "docs") -> list[str]:
    return [table.language(domain, number) for number in range(table.num_rows(domain))]


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_identified_sentence_is_in_its_language(language: str, text: str) -> None:
    ((found, p1, p2),) = identified((text,))
    assert found == language
    assert p1 / (p1 + p2) > 0.92


@pytest.mark.parametrize("text", ["", " \n\t", "1234 5678", "!?", "\x00"])
def test_identified_text_without_a_letter_is_unknown(text: str) -> None:
    assert identified((text,)) == [("unknown", 0.0, 0.0)]


@pytest.mark.parametrize("text", ["line\nof\r\ntext\u2028with ends", "half a pair \ud800 here"])
def test_identified_text_of_odd_characters_has_a_language(text: str) -> None:
    ((found, p1, _),) = identified((text,))
    assert found != "unknown"
    assert p1 > 0


def test_identified_text_uses_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert identified((TEXTS["en"],))[0][0] == "en"


def test_language_stage_keeps_what_is_told_and_allowed(tmp_path: Path) -> None:
    table = written_table(tmp_path, {"docs": [*TEXTS.values(), "ok then", "12"]})
    one = stage(LanguageConfig(allowed=("en", "de")))
    found = list(rejected(one, table, tmp_path / "work"))
    reasons = {r.number: r.reason for r in found}
    others = {i: f"identified as {name}" for i, name in enumerate(TEXTS) if i > 1}
    assert reasons == {**others, 8: "score below 0.92", 9: "score below 0.92"}
    assert labels(table)[:8] == list(TEXTS)
    assert labels(table)[9] == "unknown"
    assert found[-1].why == "0.000 as unknown"
    documents = one.findings()["docs"]["documents"]
    assert documents["fr"] == 1
    assert sum(documents.values()) == 10


def test_language_stage_below_counts_what_another_threshold_would_remove(tmp_path: Path) -> None:
    table = written_table(tmp_path, {"docs": [*TEXTS.values(), "12", "ok then"]})
    one = stage(LanguageConfig(score=0.5))
    assert [r.number for r in rejected(one, table, tmp_path / "work")] == [8]
    below = one.findings()["docs"]["below"]
    assert below["0.5"] == 1
    assert below["0.92"] == 2


def test_language_stage_probability_is_stricter_on_technical_text(tmp_path: Path) -> None:
    """The small model leaves much probability to languages that nobody would confuse."""
    text = (
        "tensor.Tensor.view\n\nReturn a new tensor with the same data as the self tensor but of a "
        "different shape. Raises ValueError if size is not compatible.\n"
    )
    table = written_table(tmp_path, {"docs": [text]})
    by_second = stage(LanguageConfig())
    assert list(rejected(by_second, table, tmp_path / "work")) == []
    by_itself = stage(LanguageConfig(measure="probability"))
    assert len(list(rejected(by_itself, table, tmp_path / "work"))) == 1


def test_language_stage_code_and_mathematics_are_labelled_by_their_names(tmp_path: Path) -> None:
    names = ["a.py", "src/b.RS#0.3", "c.jsonl#7", "no_ending", "d.tar.js"]
    texts = {"code": ["x"] * 5, "math": ["y = 1"] * 5}
    table = written_table(tmp_path, texts, identity=names.__getitem__)
    exempt = stage(LanguageConfig(allowed=("en",)), holds={"code": "code", "math": "math"})
    assert list(rejected(exempt, table, tmp_path / "work")) == []
    expected = ["python", "rust", "unknown", "unknown", "javascript"]
    assert labels(table, "code") == expected
    assert labels(table, "math") == expected
    assert exempt.findings() == {}


def test_language_stage_takes_the_word_of_the_source(tmp_path: Path) -> None:
    said = ["de", "en-GB", "EN_us", "Klingon", ""]
    table = written_table(tmp_path, {"docs": [TEXTS["fr"]] * 5}, language=said.__getitem__)
    found = list(rejected(stage(LanguageConfig(allowed=("en",))), table, tmp_path / "work"))
    assert [(r.number, r.reason) for r in found] == [
        (0, "said to be de"),
        (3, "said to be of another language"),
        (4, "identified as fr"),
    ]
    assert found[1].why == "the source says 'klingon'"
    assert labels(table) == ["de", "en", "en", "klingon", "fr"]


def test_language_stage_said_programming_language_goes_before_the_ending(tmp_path: Path) -> None:
    table = written_table(
        tmp_path,
        {"code": ["x", "y"]},
        identity=lambda number: "a.py",
        language=["Cython", ""].__getitem__,
    )
    list(rejected(stage(None, holds={"code": "code"}), table, tmp_path / "work"))
    assert labels(table, "code") == ["cython", "python"]


def test_language_stage_without_configuration_only_labels(tmp_path: Path) -> None:
    table = written_table(tmp_path, {"docs": [TEXTS["fr"], "12"]}, language=["fr", ""].__getitem__)
    silent = stage(None)
    assert list(rejected(silent, table, tmp_path / "work")) == []
    assert labels(table) == ["fr", "unknown"]
    assert silent.findings() == {}
    assert silent.settings() == {"exempt": [], "identify": False}


def test_language_stage_settings_name_the_model_and_the_thresholds() -> None:
    settings = stage(LanguageConfig(allowed=("fr", "en"))).settings()
    assert settings["model_sha256"] == (
        "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
    )
    assert settings["allowed"] == ["en", "fr"]
    assert settings["score"] == 0.92
    assert settings != stage(LanguageConfig(allowed=("fr", "en"), score=0.9)).settings()
    assert settings != stage(LanguageConfig(measure="probability")).settings()


@pytest.mark.slow
def test_language_stage_result_does_not_depend_on_the_workers(tmp_path: Path) -> None:
    texts = [f"{text} {number}" for number in range(300) for text in TEXTS.values()]
    table = written_table(tmp_path, {"docs": texts})

    def of(workers: Workers) -> tuple[list[Rejected], list[str]]:
        one = stage(LanguageConfig(allowed=("en", "fr")), workers=workers)
        return list(rejected(one, table, tmp_path / "work")), labels(table)

    alone = of(Workers())
    with Workers(2) as workers:
        assert of(workers) == alone
    assert len(alone[0]) == 6 * 300


def test_excerpt_of_a_long_text_is_its_beginning_middle_and_end() -> None:
    text = "a" * 5000 + "b" * 5000 + "c" * 5000
    assert excerpt(text) == "a" * 1000 + " " + "b" * 1000 + " " + "c" * 1000
    assert excerpt("x" * 3000) == "x" * 3000
    assert len(excerpt("x" * 3001)) == 3002


def test_programming_language_of_a_hash_in_a_folder_is_still_told() -> None:
    assert programming_language("c#/a.cs#3") == "c#"
    assert programming_language("a.h") == "c"
