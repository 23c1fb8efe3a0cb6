"""A byte-level BPE: any text round-trips, and every token has an exact number of bytes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from workbench.errors import IntegrityError, InvalidFileError

END_OF_TEXT = "<|endoftext|>"
END_OF_TEXT_ID = 0
"""Follows every document in a shard; never produced from text, even text that spells it."""


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Return a byte-level BPE of exactly ``vocab_size`` tokens, the same for the same texts.

    Raises:
        InvalidFileError: the texts hold too few different pairs for that many tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    found = tokenizer.get_vocab_size()
    if found != vocab_size:
        raise InvalidFileError(
            f"tokenizer.vocab_size {vocab_size} cannot be reached: the training text yields "
            f"{found} tokens",
            remedy=f"set vocab_size to {found} or less, or raise train_bytes and max_bytes",
        )
    return _literal(tokenizer)


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a built corpus.

    Raises:
        IntegrityError: the file is not a tokenizer whose token 0 is ``<|endoftext|>``.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises plain Exception for every fault of the file.
        raise IntegrityError(f"{path.name} is not a tokenizer: {error}") from error
    if tokenizer.token_to_id(END_OF_TEXT) != END_OF_TEXT_ID:
        raise IntegrityError(f"{path.name} has no {END_OF_TEXT} as token {END_OF_TEXT_ID}")
    return _literal(tokenizer)


def _literal(tokenizer: Tokenizer) -> Tokenizer:
    # Text that spells "<|endoftext|>" is text: without this it would end the document.
    tokenizer.encode_special_tokens = True
    return tokenizer


def token_bytes(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Return the UTF-8 bytes that each token stands for, shape ``(vocab,)``; 0 for end-of-text.

    A byte-level token is written with one character a byte, so its length is its byte count.
    """
    sizes = [len(tokenizer.id_to_token(i) or "") for i in range(tokenizer.get_vocab_size())]
    sizes[END_OF_TEXT_ID] = 0
    return np.asarray(sizes, dtype=np.int64)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return each text's token ids, followed by end-of-text."""
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [[*encoding.ids, END_OF_TEXT_ID] for encoding in encodings]
