"""How numbers of things are said."""


def count_of(number: int, one: str, many: str = "") -> str:
    """Return ``1 entry`` or ``5 entries``.

    Args:
        number: How many.
        one: The thing.
        many: Several of them; with an s if empty.
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def entries_of(number: int) -> str:
    """Return ``1 entry`` or ``5 entries``."""
    return count_of(number, "entry", "entries")
