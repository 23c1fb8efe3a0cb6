"""Tables of documents on disk, as the stages of a build see them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from workbench.data.building.stages import Rejected, Stage
from workbench.data.building.table import Row, Table, TableWriter
from workbench.data.text.dedup import content_digest


def written_table(
    folder: Path,
    texts: dict[str, Sequence[str]],
    *,
    identity: Callable[[int], str] = lambda number: f"texts#{number}",
    language: Callable[[int], str] = lambda number: "",
) -> Table:
    """Return a table of texts by domain; identity and language follow from a text's number."""
    folder.mkdir(parents=True, exist_ok=True)
    for domain, held in texts.items():
        with TableWriter(folder, domain) as writer:
            for number, text in enumerate(held):
                row = Row(
                    domain=domain,
                    number=number,
                    id=identity(number),
                    text=text,
                    digest=content_digest(text),
                    num_bytes=len(text.encode()),
                    provenance="tests",
                    licence="",
                    language=language(number),
                )
                writer.write(row)
    return Table(folder, tuple(texts))


def rejected(stage: Stage, table: Table, work: Path) -> Iterator[Rejected]:
    work.mkdir(parents=True, exist_ok=True)
    return stage.rejects(table, work=work, progress=lambda share: None)
