"""The published head, as `workbench verify` takes it for the one kept elsewhere."""

from tests.labs import LabFolder


def test_published_head_of_other_bytes_fails_verification_and_is_named(
    registered_lab: LabFolder,
) -> None:
    registered_lab.open().publish()
    assert registered_lab.open().verify().passed
    (registered_lab.root / "registry" / "checkpoint").write_bytes(b"\xff\xfe\x00 noise")
    report = registered_lab.open().verify()
    assert not report.passed
    assert any(line.startswith("FAIL") and "kept head" in line for line in report.lines())
