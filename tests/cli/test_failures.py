"""Errors that nobody foresaw: a message, an exit code and no traceback."""

import errno

import pytest

from workbench.cli import main as entry


def test_unusable_file_is_named_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/lab/reports/index.html")

    monkeypatch.setattr(entry, "app", full)
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 10
    said = capsys.readouterr().err
    assert "/lab/reports/index.html cannot be used: No space left on device" in said
    assert "->" in said


def test_unforeseen_error_is_told_in_one_line_and_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise LookupError("no such thing")

    monkeypatch.setattr(entry, "app", broken)
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert "LookupError: no such thing" in said
    assert entry.TRACEBACK in said
    assert "Traceback" not in said
    monkeypatch.setenv(entry.TRACEBACK, "1")
    with pytest.raises(LookupError):
        entry.main()
