"""Who hears about a run while it happens: the protocol, and the files of the run's own folder."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TextIO

from workbench.canonical import freeze
from workbench.sentinel.telemetry import TelemetryRow, to_line


class StopRun(Exception):
    """Raised by a recorder to end the run at this evaluation."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Recorder(Protocol):
    """Receives what happens in a run, in the order in which it happens."""

    def telemetry(self, row: TelemetryRow) -> None:
        """Hear of a finished step."""

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Hear of validation metrics.

        Raises:
            StopRun: the run should end here, as pruned.
        """

    def checkpoint(self, step: int, path: Path, sha256: str) -> None:
        """Hear of a checkpoint that was written and verified."""

    def close(self) -> None:
        """Write what is waiting; called once, however the run ends."""


class FileRecorder:
    """Telemetry and evaluations of one attempt as JSON lines, each handed over at once.

    A killed process leaves at most its last line unfinished.
    """

    def __init__(self, telemetry: Path, evaluations: Path) -> None:
        """Create the files.

        Raises:
            FileExistsError: one of them exists: an attempt is recorded once.
        """
        self._digest = hashlib.sha256()
        self._telemetry: TextIO = telemetry.open("x", encoding="utf-8", buffering=1)
        self._evaluations: TextIO = evaluations.open("x", encoding="utf-8", buffering=1)

    @property
    def telemetry_sha256(self) -> str:
        """SHA-256 of the telemetry file so far."""
        return self._digest.hexdigest()

    def telemetry(self, row: TelemetryRow) -> None:
        """Append the row."""
        line = to_line(row)
        self._digest.update(line.encode())
        self._telemetry.write(line)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Append the metrics; floats are decimal strings, so that a NaN stays valid JSON."""
        self._evaluations.write(f"{json.dumps({'step': step, 'values': freeze(values)})}\n")

    def checkpoint(self, step: int, path: Path, sha256: str) -> None:
        """Do nothing: the checkpoint folder says it itself."""

    def close(self) -> None:
        """Close the files."""
        self._telemetry.close()
        self._evaluations.close()
