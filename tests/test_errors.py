"""Refusals: what they say and which exit code each has."""

import pytest

from workbench import errors
from workbench.errors import Fault, InvalidFileError, NotFoundError, WorkbenchError

CODES = {
    "InvalidFileError": 3,
    "NotRegisteredError": 4,
    "ConflictError": 5,
    "IntegrityError": 6,
    "MissingDependencyError": 7,
    "RunFailedError": 8,
    "NotFoundError": 9,
    "StoreUnavailableError": 10,
}


def test_exit_codes_are_fixed_and_distinct() -> None:
    """Scripts rely on them: 0 is success, 1 anything unforeseen, 2 the command line's own."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c is not WorkbenchError]
    found = {c.__name__: c.exit_code for c in classes if issubclass(c, WorkbenchError)}
    assert found == CODES
    assert len(found) < 10


@pytest.mark.parametrize("name", CODES)
def test_refusal_says_what_and_how_to_go_on(name: str) -> None:
    error = getattr(errors, name)("value 'x' is refused", remedy="workbench status")
    assert str(error) == "value 'x' is refused\n  -> workbench status"
    assert str(getattr(errors, name)("value 'x' is refused")) == "value 'x' is refused"


def test_invalid_file_shows_every_fault_with_its_place_and_remedy() -> None:
    faults = [
        Fault(where="a.yaml:3", message="key 'x' is unknown", remedy="remove it"),
        Fault(where="a.yaml", message="'y' is missing"),
    ]
    lines = str(InvalidFileError("a.yaml has 2 faults", faults, remedy="edit it")).splitlines()
    assert lines == [
        "a.yaml has 2 faults",
        "  -> edit it",
        "  a.yaml:3: key 'x' is unknown",
        "    -> remove it",
        "  a.yaml: 'y' is missing",
    ]


def test_refusal_is_caught_by_its_base() -> None:
    with pytest.raises(WorkbenchError):
        raise NotFoundError("gone")
