import math

import pytest

from workbench.data.corpus import Corpus
from workbench.data.serving.mixture import resolve
from workbench.errors import InvalidFileError


def test_resolve_natural_is_the_share_of_training_bytes(corpus: Corpus) -> None:
    shares = resolve("natural", corpus)
    sizes = {d: corpus.token_bytes[corpus.tokens("train", d)].sum() for d in corpus.domains}
    assert shares == pytest.approx({d: n / sum(sizes.values()) for d, n in sizes.items()})
    assert math.fsum(shares.values()) == pytest.approx(1, abs=1e-15)


def test_resolve_left_out_domain_has_share_zero(corpus: Corpus) -> None:
    assert resolve({"math": 0.25, "code": 0.75}, corpus) == {
        "code": 0.75,
        "docs": 0.0,
        "math": 0.25,
    }


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({"code": 0.5, "poetry": 0.5}, "poetry"),
        ({"code": math.nan, "math": 1.0}, "nan"),
        ({"code": -0.5, "math": 1.5}, "-0.5"),
        ({"code": 0.0}, "not a set of shares"),
    ],
)
def test_resolve_what_is_no_mixture_is_refused(
    corpus: Corpus, mixture: dict[str, float], message: str
) -> None:
    with pytest.raises(InvalidFileError, match=message):
        resolve(mixture, corpus)
