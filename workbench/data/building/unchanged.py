"""Whether the files that a build reads stay as they were when it began."""

from pathlib import Path

from workbench.data.config import CorpusConfig, all_sources
from workbench.data.text.files import source_files
from workbench.data.text.sources import is_local
from workbench.errors import ConflictError


class ReadFiles:
    """The local files of everything that a configuration names, as they are now.

    A build takes it before it hashes any of them. What was read while `refuse_changed` passes
    afterwards has the hashes that were taken in between.
    """

    def __init__(self, config: CorpusConfig, *, root: Path) -> None:
        """Note size, times and number of each file.

        Raises:
            NotFoundError: a source does not exist.
            InvalidFileError: a path outside the lab.
        """
        self._root = root
        self._sources = sorted({s.source for s in all_sources(config) if is_local(s.source)})
        self._before = self._noted()

    def refuse_changed(self) -> None:
        """Refuse to go on when a file is another than before.

        Raises:
            ConflictError: a file changed, came or went.
            NotFoundError: a source has no file any more.
        """
        now = self._noted()
        for source in self._sources:
            if now[source] != self._before[source]:
                raise ConflictError(
                    f"a file of {source!r} changed while it was read",
                    remedy="wait until it is complete and run again: workbench data build RECIPE",
                )

    def _noted(self) -> dict[str, list[tuple[str, int, int, int, int]]]:
        found = {}
        for source in self._sources:
            stats = [(str(f), f.stat()) for f in source_files(source, root=self._root)]
            found[source] = [
                # A program may set the time of a change back, but not that of its own doing.
                (name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
                for name, s in stats
            ]
        return found
