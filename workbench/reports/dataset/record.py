"""Identity of a corpus: keys, hashes, versions, and the configuration that makes it again."""

import json

from workbench.data.config import SPLITS
from workbench.reports.blocks import (
    Block,
    Heading,
    Row,
    Section,
    Verbatim,
    lines,
    say,
    section,
    table,
)
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.wording import title
from workbench.reports.narrative import clause, line
from workbench.reports.quantities import count, scaled
from workbench.reports.untrusted import visible


def record_section(facts: DataFacts) -> Section:
    """Return fingerprints, keys, file hashes, versions and the configuration."""
    manifest = facts.manifest
    versions = "; ".join(
        f"{visible(name)} {visible(version)}" for name, version in sorted(manifest.builder.items())
    )
    shards = [
        Row(
            cells=(
                shard.path,
                count(shard.documents),
                scaled(shard.bytes, "B"),
                count(shard.tokens),
                shard.sha256,
            )
        )
        for split in SPLITS
        for _, shard in sorted(manifest.shards.get(split, {}).items())
    ]
    others = [
        Row(cells=(name, sha256))
        for name, sha256 in (
            ("tokenizer.json", manifest.tokenizer_sha256),
            ("documents.jsonl", manifest.documents_sha256),
            ("ngrams.npz", manifest.ngrams_sha256),
            *(
                (shard.index_path, shard.index_sha256)
                for split in SPLITS
                for _, shard in sorted(manifest.shards.get(split, {}).items())
            ),
        )
    ]
    blocks: list[Block | None] = [
        say(
            "Generated from the corpus’s manifest alone: the same manifest gives the same bytes. "
            "data.json beside this page holds the same facts, and more digits, for other programs."
        ),
        lines(
            line("Fingerprint", clause("", code=manifest.fingerprint)),
            line("Key before building", clause("", code=manifest.key)),
            line("Vocabulary", clause(f"{count(manifest.vocab_size)} tokens.")),
            line("Built with", clause(f"{versions or 'not recorded'}.")),
        ),
        table(
            "Keys of the stages, in order.",
            ["Stage", "Key"],
            [Row(cells=(title(stage.name), stage.key)) for stage in facts.stages],
        ),
        table(
            "Tokens by split and domain. The sealed split is read by the verdict only.",
            ["File", "Documents", "Text", "Tokens", "SHA-256"],
            shards,
            numeric=(1, 2, 3),
        ),
        table("Other files.", ["File", "SHA-256"], others),
        Heading(text="Configuration"),
        Verbatim(text=_configuration(facts)),
    ]
    return section("record", "Record", blocks)


def _configuration(facts: DataFacts) -> str:
    plain = facts.manifest.config.model_dump(mode="json", exclude_none=True)
    return visible(json.dumps(plain, ensure_ascii=False, indent=1))
