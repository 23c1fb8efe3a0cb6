"""The front matter of ``proposal.md``: read with line numbers, refused with every fault at once."""

from collections.abc import Mapping

from workbench.errors import Fault, InvalidFileError
from workbench.registry.located import Located, in_file_order, key_name, read_yaml
from workbench.registry.proposal import PLACEHOLDER, Proposal
from workbench.registry.proposal_versions import NEWEST, VERSIONS, unknown_to, version_of
from workbench.registry.schema_faults import comment_hints, validated
from workbench.scaffold.forms import blank_form, proposal_text

_FENCE = "---"


def front_matter(text: str, where: str) -> tuple[Located, str]:
    """Return the YAML between the first two ``---`` lines and the Markdown after them.

    Raises:
        InvalidFileError: there is no front matter, or it is not YAML.
    """
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(fences) < 2 or fences[0] != 0:
        missing = "does not begin with a line '---'" if fences[:1] != [0] else "has no second '---'"
        fault = Fault(
            where=f"{where}:1",
            message=f"{missing}, so it has no front matter",
            remedy="put the YAML between two lines '---' at the top of the file",
        )
        raise InvalidFileError(f"{where} cannot be read", [fault])
    yaml = "\n".join(lines[1 : fences[1]])
    return read_yaml(yaml, where, first_line=2), "\n".join(lines[fences[1] + 1 :])


def proposal_faults(text: str, where: str) -> tuple[Located, Proposal | None, tuple[Fault, ...]]:
    """Return the located front matter, the proposal if it is sound, and every fault of the file.

    Raises:
        InvalidFileError: there is no front matter, or it is not YAML.
    """
    document, prose = front_matter(text, where)
    proposal, faults = validated(Proposal, document, hints=proposal_hints)
    if version_of(document.value) != document.get(("proposal",)):
        # The version by itself is told below, in the words of a person who has another one.
        own = f"{key_name(('proposal',))} must be"
        faults = tuple(fault for fault in faults if not fault.message.startswith(own))
    prose_line = text.count("\n") - prose.count("\n") + 1
    left = tuple(
        Fault(where=f"{where}:{prose_line + i}", message=f"'{PLACEHOLDER}' is left in the prose")
        for i, line in enumerate(prose.split("\n"))
        if PLACEHOLDER in line
    )
    faults = in_file_order([*_version_faults(document), *faults, *left])
    return document, None if faults else proposal, faults


def _version_faults(document: Located) -> list[Fault]:
    """Return each key that the file's version of the form does not have, or an unknown version."""
    said = document.get(("proposal",))
    if isinstance(said, str) and said not in VERSIONS and PLACEHOLDER not in said:
        known = " and ".join(VERSIONS)
        return [
            document.fault(
                ("proposal",),
                f"proposal {said!r} is not a version that this workbench reads ({known})",
                f"write proposal: {NEWEST}, or install the workbench that wrote it",
            )
        ]
    version = version_of(document.value)
    return [
        document.fault(
            newer.path,
            f"{key_name(newer.path)}{f' {newer.text!r}' if newer.text else ''} is new in "
            f"{newer.since}, and this proposal says {version}",
            f"write proposal: {newer.since} (line {document.line(('proposal',))}), or remove it",
        )
        for newer in unknown_to(version, document.value)
    ]


def parse_proposal(text: str, where: str) -> Proposal:
    """Return the typed front matter of a proposal.

    Args:
        text: The whole file.
        where: The file's name, as faults give it.

    Raises:
        InvalidFileError: it cannot be accepted; carries every fault with its line.
    """
    _, proposal, faults = proposal_faults(text, where)
    if proposal is None:
        raise InvalidFileError(f"{where} has {counted(len(faults))}", faults)
    return proposal


def proposal_hints() -> Mapping[str, str]:
    """Return what a good answer is to each field, by dotted key: the form's own comments."""
    return comment_hints(proposal_text(blank_form()))


def counted(num_faults: int) -> str:
    """Return ``1 fault`` or ``5 faults``."""
    return f"{num_faults} fault{'' if num_faults == 1 else 's'}"
