from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from workbench.data.tokenizer import (
    END_OF_TEXT,
    END_OF_TEXT_ID,
    encode,
    load_tokenizer,
    token_bytes,
    train_tokenizer,
)
from workbench.errors import IntegrityError, InvalidFileError

TEXTS = ["the cat sat on the mat\n", "a naïve café — 数学\n", "the hat and the cat\n"] * 4


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, 280)


def test_tokenizer_trained_twice_is_the_same_file(tokenizer: Tokenizer) -> None:
    assert train_tokenizer(iter(TEXTS), 280).to_str() == tokenizer.to_str()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_encode_any_text_round_trips_with_exact_bytes(tokenizer: Tokenizer, text: str) -> None:
    [ids] = encode(tokenizer, [text])
    assert ids[-1] == END_OF_TEXT_ID
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert token_bytes(tokenizer)[ids].sum() == len(text.encode())


def test_encode_text_that_spells_end_of_text_stays_text(tokenizer: Tokenizer) -> None:
    [ids] = encode(tokenizer, [f"a{END_OF_TEXT}b"])
    assert ids.count(END_OF_TEXT_ID) == 1
    assert token_bytes(tokenizer)[ids].sum() == len(f"a{END_OF_TEXT}b")


def test_load_tokenizer_saved_one_encodes_alike(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    texts = [f"the cat{END_OF_TEXT}", "数"]
    assert encode(loaded, texts) == encode(tokenizer, texts)


def test_load_tokenizer_damaged_file_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str()[:100])
    with pytest.raises(IntegrityError, match=r"tokenizer\.json"):
        load_tokenizer(path)


def test_load_tokenizer_without_end_of_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(Tokenizer.from_str(train_tokenizer(TEXTS, 270).to_str()).to_str())
    path.write_text(path.read_text().replace("endoftext", "somethingelse"))
    with pytest.raises(IntegrityError, match="endoftext"):
        load_tokenizer(path)


def test_train_tokenizer_vocabulary_out_of_reach_says_what_is(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidFileError, match=r"yields 2[5-9][0-9] tokens"):
        train_tokenizer(["ab ab\n"], 1000)
