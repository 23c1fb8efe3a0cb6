from collections import Counter

from workbench.data.config import SplitConfig
from workbench.data.splits import split_of
from workbench.data.text.dedup import content_digest

CONFIG = SplitConfig(validation=0.2, test=0.1, salt="a")
DIGESTS = [content_digest(f"document {i}") for i in range(5000)]


def test_split_of_many_documents_has_the_stated_shares() -> None:
    counts = Counter(split_of(digest, CONFIG) for digest in DIGESTS)
    # Binomial standard deviations are 28 and 21 documents.
    assert abs(counts["validation"] - 1000) < 120
    assert abs(counts["test"] - 500) < 90


def test_split_of_a_document_depends_on_its_text_and_salt_alone() -> None:
    other = CONFIG.model_copy(update={"salt": "b"})
    splits = [split_of(digest, CONFIG) for digest in DIGESTS]
    assert splits == [split_of(digest, CONFIG) for digest in DIGESTS]
    assert splits != [split_of(digest, other) for digest in DIGESTS]


def test_split_of_a_larger_test_share_only_moves_documents_towards_test() -> None:
    wider = SplitConfig(validation=0.2, test=0.2, salt="a")
    before = {digest for digest in DIGESTS if split_of(digest, CONFIG) == "test"}
    after = {digest for digest in DIGESTS if split_of(digest, wider) == "test"}
    assert before < after
