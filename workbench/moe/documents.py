"""Which positions of a packed sequence see each other.

Shape suffixes: B sequences, T positions.
"""

from functools import cached_property

from torch import Tensor


class Documents:
    """Documents side by side in the rows of a batch; attention stays within each."""

    def __init__(self, segments_BT: Tensor) -> None:
        self.segments_BT = segments_BT
        """Equal numbers are one document."""

    @cached_property
    def visible_B1TT(self) -> Tensor:
        """Where a position (row) sees another (column): not later, and of its own document."""
        same_BTT = self.segments_BT.unsqueeze(2) == self.segments_BT.unsqueeze(1)
        return same_BTT.tril().unsqueeze(1)
