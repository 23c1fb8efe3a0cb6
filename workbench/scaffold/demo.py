"""The demonstration's proposal: the scaffold's own form, answered."""

import json
import re
from collections.abc import Mapping

ANSWERS = {
    "pilots_seen": "none",
    "foreknowledge": "related_results",
    "statement": (
        "A data mixture, balance weight and phase split chosen by small proxies give fewer bits per "
        "byte, averaged over the domains, than natural proportions with the customary weight 0.01."
    ),
    "mechanism": (
        "Natural proportions follow what is plentiful; the mean over domains gives each domain the "
        "same say, so tokens moved from the plentiful domain to the scarce ones gain more than they "
        "cost. A longer decay helps a short run."
    ),
    "would_change_my_mind": (
        "An upper bound of the improvement below the minimum effect on the sealed test split."
    ),
    "minimum_effect": 0.02,
    "claim": "superior(0.02)",
    "supported": "use the chosen mixture, weight and phases for the next larger run",
    "refuted": "stay with natural proportions and spend no more on mixture sweeps at this size",
    "inconclusive": "register a larger repeat with more seeds before changing anything",
    "void": "find and record the cause, then register the same experiment again",
    "expected_improvement": 0.05,
}
LISTED = {
    "proxy_infidelities": (
        "proxies see a fraction of the tokens and have half the width, so optimal weights may drift"
    ),
    "threats_to_validity": (
        "the text is what comes with Python: three narrow domains, small enough to be repeated"
    ),
}


def answered(form: str, changes: Mapping[str, str]) -> str:
    """Return the scaffolded proposal with every owed answer given and some values replaced.

    Args:
        form: The text of ``proposal.md`` as `workbench propose` wrote it.
        changes: Lines to replace, the old ones as they stand in the form without indentation.

    Raises:
        KeyError: the form asks something that has no answer here.
        ValueError: a line to be replaced is not in the form.
    """
    lines, section = [], ""
    for line in form.splitlines():
        indent, text = line[: len(line) - len(line.lstrip())], line.strip()
        if re.fullmatch(r"[a-z_]+:", text):
            section = text[:-1]
        if not text.startswith("#") and "FILL IN" in text:
            text = _answer(text, section)
        lines.append(indent + changes.get(text, text))
    missing = [old for old in changes if old not in map(str.strip, form.splitlines())]
    if missing:
        raise ValueError(f"not in the form: {missing}")
    return "\n".join(lines) + "\n"


def _answer(text: str, section: str) -> str:
    if text.startswith("- "):
        return f"- {json.dumps(LISTED[section], ensure_ascii=False)}"
    key = text.partition(":")[0]
    return f"{key}: {json.dumps(ANSWERS[key], ensure_ascii=False)}"
