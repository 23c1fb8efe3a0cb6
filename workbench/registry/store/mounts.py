"""Which file system a path is on, from the kernel's mount table."""

import re
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import StoreUnavailableError

MOUNT_TABLE = Path("/proc/self/mountinfo")
# On these, locks and shared memory between machines do not hold what SQLite needs of them.
_NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "coda", "lustre", "gpfs",
        "beegfs", "ceph", "glusterfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "panfs", "wekafs",
    }
)  # fmt: skip
_NETWORK_FUSE = re.compile(
    r"fuse\.(sshfs|glusterfs|ceph|ceph-fuse|s3fs|gcsfuse|goofys|rclone|juicefs|davfs2?|beegfs)"
    r"|fuse\.nfs.*"
)


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One line of the mount table."""

    point: Path
    kind: str
    """Type of the file system, as the kernel names it."""


def mounts(table: str) -> list[Mount]:
    """Return what a mount table in the form of ``/proc/self/mountinfo`` lists."""
    found: list[Mount] = []
    for line in table.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if separator and len(fields) >= 5 and right:
            found.append(Mount(point=Path(_unescaped(fields[4])), kind=right.split()[0]))
    return found


def mount_of(path: Path, table: str) -> Mount | None:
    """Return the mount that holds the path: the innermost, and of equal ones the last."""
    wanted = path.resolve()
    holding = [m for m in mounts(table) if wanted == m.point or m.point in wanted.parents]
    return (
        max(enumerate(holding), key=lambda at: (len(at[1].point.parts), at[0]))[1]
        if holding
        else None
    )


def is_network(mount: Mount) -> bool:
    """Return whether other machines may write to the file system at the same time."""
    return mount.kind in _NETWORK or bool(_NETWORK_FUSE.fullmatch(mount.kind))


def refuse_network_file_system(path: Path) -> None:
    """Refuse a place where SQLite cannot keep two writers apart.

    Raises:
        StoreUnavailableError: the path is on NFS or another network file system.
    """
    try:
        table = MOUNT_TABLE.read_text("utf-8", "surrogateescape")
    except OSError:
        return  # no Linux: nothing is known
    mount = mount_of(path, table)
    if mount is not None and is_network(mount):
        raise StoreUnavailableError(
            f"{path} is on {mount.kind} ({mount.point}), where SQLite's locks do not keep two "
            "machines apart: a ledger there would lose entries",
            remedy='set store_url = "postgresql://HOST/DATABASE" in workbench.toml, or '
            '"sqlite:////PATH/ON/A/LOCAL/DISK/ledger.db"',
        )


def _unescaped(text: str) -> str:
    """Return a mount point with the kernel's octal escapes undone."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
