"""Identity of a corpus: keys, hashes, versions, and the configuration that makes it again."""

import json

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
from workbench.reports.quantities import count
from workbench.reports.untrusted import visible


def record_section(facts: DataFacts) -> Section:
    """Return fingerprints, keys, file hashes, versions and the configuration."""
    manifest = facts.manifest
    versions = "; ".join(
        f"{visible(name)} {visible(version)}" for name, version in sorted(manifest.builder.items())
    )
    files = [Row(cells=(path, sha256)) for path, sha256 in facts.files.items()]
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
            "Files of the corpus. Those in sealed/ are read by the verdict only.",
            ["File", "SHA-256"],
            files,
        ),
        Heading(text="Configuration"),
        Verbatim(text=_configuration(facts)),
    ]
    return section("record", "Record", blocks)


def _configuration(facts: DataFacts) -> str:
    plain = facts.manifest.config.model_dump(mode="json", exclude_none=True)
    return visible(json.dumps(plain, ensure_ascii=False, indent=1, sort_keys=True))
