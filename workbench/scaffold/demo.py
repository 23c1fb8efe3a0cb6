"""The demonstration's proposal: the scaffold's own form, answered."""

import json
import re
from collections.abc import Mapping

ANSWERS = {
    "pilots_seen": "none",
    "foreknowledge": "related_results",
    "statement": (
        "A data mixture, balance weight and phase split chosen by small proxies give fewer bits "
        "per byte, averaged over the domains, than natural proportions with weight 0.01."
    ),
    "mechanism": (
        "Natural proportions follow what is plentiful; the mean over domains gives each domain the "
        "same say, so tokens moved from the plentiful domain to the scarce ones gain more than "
        "they cost. A longer decay helps a short run."
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
    "proxy_infidelities": (
        "proxies see a fraction of the tokens and have half the width, so optimal weights may drift"
    ),
    "threats_to_validity": (
        "the text is what comes with Python: three narrow domains, small enough to be repeated"
    ),
}


def answered(form: str) -> str:
    """Return the scaffolded proposal with every owed answer given.

    Raises:
        KeyError: the form asks something that has no answer here.
    """
    lines: list[str] = []
    key = ""
    for line in form.splitlines():
        indent, text = line[: len(line) - len(line.lstrip())], line.strip()
        if text.startswith("#") or not text:
            lines.append(line)
            continue
        named = re.match(r"(?:- )?([a-z_]+):", text)
        key = named[1] if named else key
        lines.append(f"{indent}{_answer(text, key)}" if "FILL IN" in text else line)
    return "\n".join(lines) + "\n"


def with_lines(text: str, changes: Mapping[str, str]) -> str:
    """Return the text with some lines replaced, compared and replaced without their indentation.

    Raises:
        ValueError: a line to be replaced is not in the text.
    """
    lines = text.splitlines()
    missing = set(changes) - {line.strip() for line in lines}
    if missing:
        raise ValueError(f"no such lines: {sorted(missing)}")
    return "\n".join(_changed(line, changes) for line in lines) + "\n"


def _changed(line: str, changes: Mapping[str, str]) -> str:
    text = line.strip()
    return line[: len(line) - len(line.lstrip())] + changes[text] if text in changes else line


def _answer(text: str, key: str) -> str:
    """Return the line with the answer of its key; a block scalar's line is the bare text."""
    answer = ANSWERS[key]
    if text == "FILL IN":
        return str(answer)
    written = json.dumps(answer, ensure_ascii=False)
    return f"- {written}" if text.startswith("- ") else f"{key}: {written}"
