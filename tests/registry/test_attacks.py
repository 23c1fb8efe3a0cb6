"""Every cell of the table of attacks, and the table in the documentation."""

import os
import re
from pathlib import Path

import pytest

from tests.registry.attacks import ANCHORED, ATTACKS, COLUMNS, HONEST, Attack, examined, table
from workbench.registry.verify import verify_log

DOCUMENT = Path(__file__).parents[2] / "docs" / "record-format.md"
_TABLE = re.compile(r"(?<=<!-- attacks -->\n).*?(?=\n<!-- end of attacks -->)", re.DOTALL)


def test_honest_log_passes_every_verifier() -> None:
    for kept in (None, HONEST.heads[-1], HONEST.heads[ANCHORED - 1]):
        assert verify_log(HONEST, vkey=HONEST.vkey, kept_head=kept).passed


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_comes_out_as_the_table_says(attack: Attack) -> None:
    assert tuple(examined(attack, column) for column in COLUMNS) == attack.expected


def test_table_of_attacks_is_in_the_documentation() -> None:
    text = DOCUMENT.read_text("utf-8")
    if os.environ.get("UPDATE_SNAPSHOTS"):
        text = _TABLE.sub(lambda _: table(), text)
        DOCUMENT.write_text(text, "utf-8")
    found = _TABLE.search(text)
    assert found is not None
    assert found[0] == table()
