"""Network file systems are told from local ones by the mount table, and refused for SQLite."""

from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, LogFolder
from workbench.errors import StoreUnavailableError
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger
from workbench.registry.store import create_store, open_store
from workbench.registry.store.mounts import Mount, is_network, mount_of, mounts

LOCAL = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw"
NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs",
    "fuse.glusterfs", "fuse.s3fs",
)  # fmt: skip


def table(*points: tuple[str, str]) -> str:
    lines = [LOCAL]
    for number, (point, kind) in enumerate(points, start=30):
        # Optional fields may be none, one or several; they end at the hyphen.
        extra = ["", "shared:7 ", "shared:7 master:3 "][number % 3]
        lines.append(f"{number} 21 0:4 / {point} rw,nosuid {extra}- {kind} server:/x rw,vers=4.2")
    return "\n".join(lines) + "\n"


def test_mounts_are_read_with_escapes_and_any_optional_fields() -> None:
    found = mounts(table(("/a\\040b", "nfs4"), ("/c", "tmpfs"), ("/d", "fuse.sshfs")) + "torn line")
    assert found == [
        Mount(point=Path("/"), kind="ext4"),
        Mount(point=Path("/a b"), kind="nfs4"),
        Mount(point=Path("/c"), kind="tmpfs"),
        Mount(point=Path("/d"), kind="fuse.sshfs"),
    ]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/team/lab/ledger.db", "nfs4"),
        ("/srv/team", "nfs4"),
        ("/srv/teams/ledger.db", "ext4"),
        ("/srv/team/scratch/ledger.db", "xfs"),
        ("/srv/team/over/ledger.db", "ext4"),
    ],
)
def test_mount_of_a_path_is_the_innermost_and_the_last_over_it(path: str, kind: str) -> None:
    points = (("/srv/team/over", "nfs"), ("/srv/team", "nfs4"), ("/srv/team/scratch", "xfs"),
              ("/srv/team/over", "ext4"))  # fmt: skip
    mount = mount_of(Path(path), table(*points))
    assert mount is not None
    assert mount.kind == kind


def test_mount_of_a_link_is_that_of_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    mount = mount_of(tmp_path / "near" / "ledger.db", table((f"{tmp_path}/far", "nfs")))
    assert mount is not None
    assert mount.kind == "nfs"


@pytest.mark.parametrize("kind", NETWORK)
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network(Mount(point=Path("/"), kind=kind))


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "virtiofs", "fuse.ntfs-3g"]
)
def test_local_file_systems_are_not_refused(kind: str) -> None:
    assert not is_network(Mount(point=Path("/"), kind=kind))


def test_sqlite_store_on_nfs_is_refused_to_writers_with_the_way_out_and_shown_to_readers(
    story: LogFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "mountinfo"
    fake.write_text(table((str(story.root), "nfs4")))
    monkeypatch.setattr("workbench.registry.store.mounts.MOUNT_TABLE", fake)
    url = f"sqlite:///{story.database}"
    for method in (open_store, create_store):
        with pytest.raises(StoreUnavailableError, match=r"is on nfs4 \(") as refusal:
            method(url)
        assert "postgresql://" in refusal.value.remedy
    with pytest.raises(StoreUnavailableError, match="lose entries"):
        story.open()
    with Ledger.inspect(url=url, origin=ORIGIN) as reader:
        assert len(list(reader.entries())) == 17
    fake.unlink()  # not Linux: nothing is known, nothing refused
    with story.open() as ledger:
        assert ledger.append(Note(text="x"), subject="lab").sequence == 17
