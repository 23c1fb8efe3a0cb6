"""What the record says of looks at outcomes, in the words that are looked for again."""


def untold_reason(sequence: int) -> str:
    """Return why a verdict is void after a look that opened the sealed split and was cut short.

    Args:
        sequence: Of the exposure's entry.
    """
    return (
        f"the sealed test split was opened (entry {sequence}) and what it showed was never recorded"
    )
