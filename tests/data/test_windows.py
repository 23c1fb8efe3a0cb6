import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data.corpus import Corpus
from workbench.data.windows import evaluation_windows

TOKEN_BYTES = np.array([0, 1, 2, 3], dtype=np.int64)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 9))
def test_windows_score_every_token_once_after_the_one_before(ids: list[int], length: int) -> None:
    tokens = np.array([*ids, 1], dtype=np.uint16)
    windows = evaluation_windows(tokens, TOKEN_BYTES, seq_len=length, max_bytes=None)
    scored = windows.targets[windows.mask]
    assert scored.tolist() == [token for token in tokens.tolist() if token != 0]
    assert windows.total_bytes == TOKEN_BYTES[tokens].sum()
    flat = windows.targets.reshape(-1)[: len(tokens)]
    assert flat.tolist() == tokens.tolist()
    assert windows.inputs.reshape(-1)[: len(tokens)].tolist() == [0, *tokens.tolist()[:-1]]
    assert windows.inputs.shape == windows.mask.shape == (-(-len(tokens) // length), length)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.integers(1, 60))
def test_windows_limit_is_the_longest_prefix_that_fits(ids: list[int], limit: int) -> None:
    tokens = np.array(ids)
    windows = evaluation_windows(tokens, TOKEN_BYTES, seq_len=4, max_bytes=limit)
    count = int(windows.mask.sum())
    assert windows.total_bytes == TOKEN_BYTES[tokens[:count]].sum()
    assert windows.total_bytes <= limit or count == 1
    assert count == len(tokens) or TOKEN_BYTES[tokens[: count + 1]].sum() > limit


def test_windows_of_a_corpus_count_the_bytes_of_its_text(corpus: Corpus) -> None:
    tokens = corpus.tokens("validation", "docs")
    windows = evaluation_windows(tokens, corpus.token_bytes, seq_len=16, max_bytes=10**9)
    assert windows.total_bytes == corpus.manifest.shards["validation"]["docs"].bytes


@pytest.mark.parametrize("tokens", [[], [0, 0]])
def test_windows_without_text_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="no text to score"):
        evaluation_windows(np.array(tokens, dtype=int), TOKEN_BYTES, seq_len=4, max_bytes=5)


def test_windows_limit_below_one_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes 0"):
        evaluation_windows(np.array([1]), TOKEN_BYTES, seq_len=4, max_bytes=0)
