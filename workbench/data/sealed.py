"""The one way to the sealed test split: whoever looks is on record before they see anything."""

import re
from collections.abc import Callable, Mapping

from workbench.data.corpus import Corpus, Tokens, map_shard
from workbench.data.manifest import damaged, file_sha256
from workbench.errors import IntegrityError

_LEAF = re.compile(r"[0-9a-f]{64}\Z")


def open_sealed(corpus: Corpus, log_exposure: Callable[[], str]) -> Mapping[str, Tokens]:
    """Return the test tokens by domain, after the exposure is in the ledger.

    Args:
        corpus: the corpus whose test split is read.
        log_exposure: appends the exposure entry and returns its leaf hash in hexadecimal. It is
            called once, before any byte is read; when it raises, nothing is read.

    Raises:
        IntegrityError: no leaf hash came back, or a shard is not the one that was built.
    """
    leaf = log_exposure()
    if not isinstance(leaf, str) or not _LEAF.match(leaf):
        raise IntegrityError(
            f"the exposure was not logged (got {leaf!r} instead of a leaf hash): the test split of "
            f"corpus {corpus.name} stays sealed",
            remedy="workbench verify, then repeat the command",
        )
    opened: dict[str, Tokens] = {}
    for domain, shard in corpus.manifest.shards["test"].items():
        path = corpus.folder / shard.path
        if not path.is_file() or file_sha256(path) != shard.sha256:
            raise damaged(corpus.folder, f"{shard.path} is not the file that was built")
        opened[domain] = map_shard(corpus, shard)
    return opened
