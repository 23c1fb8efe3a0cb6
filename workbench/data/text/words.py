"""Words of a text and hashes of their n-grams: what duplicates and contamination are told by.

Hashes are 64 bits, the same on every machine: xxh3 of each word, combined over an n-gram by a
polynomial modulo 2^64 and mixed by the finalizer of splitmix64 (Steele et al. 2014, section 5).
"""

import re

import numpy as np
import xxhash
from numpy.typing import NDArray

from workbench.data.text.dedup import normalise

Hashes = NDArray[np.uint64]

_WORD = re.compile(r"\w+")
# Scripts without spaces between words: kana, CJK ideographs, Thai, Lao, Khmer, Myanmar.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_WORD_OR_CHARACTER = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
# Splitting what was translated is three times as fast as the regular expression.
_ASCII = {code: chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128)}
_BASE = 0x9E3779B97F4A7C15
_MOST_REMEMBERED = 200_000


def words(text: str) -> list[str]:
    """Return the words of the normalised text; punctuation separates and is left out.

    In scripts that put no space between words, every character is a word.
    """
    if text.isascii():
        return text.translate(_ASCII).split()
    normal = normalise(text)
    return (_WORD_OR_CHARACTER if _CHARACTER.search(normal) else _WORD).findall(normal)


class WordHashes:
    """The 64-bit hash of each word, remembered for the frequent ones."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, found: list[str]) -> Hashes:
        """Return the hashes of words, in order."""
        known = self._known
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        for word in set(found).difference(known):
            known[word] = xxhash.xxh3_64_intdigest(word.encode())
        return np.fromiter(map(known.__getitem__, found), dtype=np.uint64, count=len(found))


def ngram_hashes(hashed: Hashes, n: int) -> Hashes:
    """Return the hash of every run of ``n`` words, in order, with repeats.

    A text of fewer words has one: of all its words together, so that two short texts are equal
    only where their words are. A text without words has none.
    """
    length = len(hashed)
    if length == 0:
        return np.empty(0, dtype=np.uint64)
    width = min(n, length)
    total = np.zeros(length - width + 1, dtype=np.uint64)
    for place in range(width):
        total *= np.uint64(_BASE)
        total += hashed[place : place + len(total)]
    if width < n:
        total += np.uint64(width)  # a short text is no n-gram of a longer one
    return _mixed(total)


def _mixed(x: Hashes) -> Hashes:
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
