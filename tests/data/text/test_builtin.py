import sys
from itertools import islice

import pytest

from tests.data.texts import corpus_config
from workbench.data.text.builtin import DOMAINS, builtin_documents, builtin_versions, text_versions
from workbench.data.text.documents import Document
from workbench.errors import NotFoundError


def first(domain: str, count: int) -> list[Document]:
    return list(islice(builtin_documents(domain), count))


@pytest.mark.parametrize("domain", DOMAINS)
def test_builtin_documents_come_in_the_same_order_with_names_and_origin(domain: str) -> None:
    documents = first(domain, 40)
    assert documents == first(domain, 40)
    assert len({document.id for document in documents}) == 40
    assert all(document.text.strip() and document.provenance for document in documents)
    assert not any(sys.prefix in document.id for document in documents)


def test_builtin_documents_mix_packages() -> None:
    packages = {document.id.partition("/")[0] for document in first("docs", 100)}
    assert {"python", "numpy", "scipy"} <= packages


def test_builtin_code_is_the_standard_library_without_what_is_installed_into_it() -> None:
    names = [document.id for document in first("code", 10_000)]
    assert {"python/ast.py", "python/json/decoder.py", "python/asyncio/queues.py"} <= set(names)
    outside = (
        "site-packages",
        "dist-packages",
        "/test/",
        "encodings",
        "_sysconfigdata",
        "/config-",
    )
    assert [name for name in names if any(part in name for part in outside)] == []


@pytest.mark.slow
def test_builtin_domains_share_no_document() -> None:
    """A file behind two domains would carry one domain's held-out text into another's training."""
    names = [{document.id for document in first(domain, 10_000)} for domain in ("code", "math")]
    names.append({document.id for document in first("docs", 300)})
    assert not names[0] & names[1]
    assert not (names[0] | names[1]) & names[2]


def test_builtin_versions_name_what_decides_the_text() -> None:
    assert set(builtin_versions("code")) == {"python"}
    assert set(builtin_versions("math")) == {"mpmath", "sympy"}
    assert {"python", "numpy"} <= set(builtin_versions("docs"))
    assert text_versions(corpus_config()) == {}


def test_builtin_unknown_domain_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="builtin:code, builtin:docs, builtin:math"):
        list(builtin_documents("poetry"))
