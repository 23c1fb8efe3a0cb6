"""Corpora of one name and version with other contents."""

import os
from pathlib import Path
from typing import Any

from tests.reports.corpora import plain_manifest
from workbench.data.corpus import corpus_folder
from workbench.data.manifest import Manifest, seal, write_manifest
from workbench.data.namesakes import namesake


def built(corpora: Path, *, age: int = 0, **changed: Any) -> Manifest:
    plain = plain_manifest()
    plain["config"].update(changed)
    manifest = seal(plain)
    folder = corpus_folder(manifest.config, corpora)
    folder.mkdir(parents=True)
    write_manifest(manifest, folder)
    os.utime(folder / "manifest.json", (1e9 - age, 1e9 - age))
    return manifest


def test_corpus_whose_name_means_one_content_has_no_namesake(tmp_path: Path) -> None:
    own = built(tmp_path)
    built(tmp_path, name="mixed@3")
    built(tmp_path, name="mixed-v2-0123456789@2")
    assert namesake(own, tmp_path) is None


def test_namesake_is_the_last_built_and_tells_every_key_that_differs(tmp_path: Path) -> None:
    own = built(tmp_path)
    built(tmp_path, age=50, max_document_bytes=500)
    last = built(tmp_path, age=10, near_duplicates=None, exclude=["a"])
    found = namesake(own, tmp_path)
    assert found is not None
    assert (found.fingerprint, found.num) == (last.fingerprint, 2)
    assert sorted(found.keys) == ["exclude", "near_duplicates"]
    assert found.sentence().endswith("to keep a name for one content write mixed@3.")


def test_namesake_of_many_changes_tells_the_first_and_counts_the_rest(tmp_path: Path) -> None:
    built(tmp_path, sources={n: {"source": "builtin:docs", "max_bytes": 9} for n in "abc"})
    found = namesake(built(tmp_path), tmp_path)
    assert found is not None
    assert len(found.keys) > 6
    assert f"and {len(found.keys) - 6} more. Each keeps its report" in found.sentence()


def test_namesake_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    own = built(tmp_path)
    other = built(tmp_path, max_document_bytes=500)
    (corpus_folder(other.config, tmp_path) / "manifest.json").write_text("{}", "utf-8")
    assert namesake(own, tmp_path) is None
