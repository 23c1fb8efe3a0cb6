"""The counters of a stream's saved state, checked before a stream goes on from them.

A checkpoint that was edited or damaged must not serve other text without a word, nor loop. What
the counters say of each other is checked exactly; that they are those of this very step would
take a replay of all draws, which `TokenStream.skip` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from workbench.errors import IntegrityError


@dataclass(frozen=True, kw_only=True)
class Counters:
    """How far a stream has come; by number of the domain."""

    step: int
    drawn: list[int]
    """Sequences, since the beginning."""
    drawn_in_phase: list[int]
    """Sequences since the mixture last changed, be it by a phase or by a domain dropped."""
    positions: list[int]
    """Windows passed, taken or not."""
    resized: tuple[int, int]
    """Steps and sequences at which the number of sequences a step last changed."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a stream knows of its counters."""

    domains: Sequence[str]
    counts: Sequence[int]
    """Windows an epoch."""
    limits: Sequence[float]
    """Sequences after which each domain is dropped, infinity where it never is."""
    begins: Sequence[int]
    """Steps done at the beginning of each mixture; the first is 0."""
    weighted: bool
    """Whether windows are passed over."""


def counters(state: Mapping[str, Any], sequences: int, bounds: Bounds) -> Counters:
    """Return the counters of a state of either format.

    Args:
        state: whatever was loaded.
        sequences: a step, as the state has it.
        bounds: of the stream that goes on from it.

    Raises:
        IntegrityError: a counter is missing, no whole number, out of its range, or does not fit
            the others; the message names it.
    """
    step = whole(state, "step")
    drawn = [whole(_table(state, "drawn", bounds), d, "drawn.") for d in bounds.domains]
    in_phase = _table(state, "drawn_in_phase", bounds)
    found = Counters(
        step=step,
        drawn=drawn,
        drawn_in_phase=[whole(in_phase, d, "drawn_in_phase.") for d in bounds.domains],
        positions=drawn if state.get("version") == 1 else _positions(state, bounds),
        resized=(0, 0) if state.get("version") == 1 else _resized(state),
    )
    _refuse_wrong_sums(found, sequences, bounds)
    _refuse_wrong_domains(found, bounds)
    return found


def whole(state: Mapping[str, Any], name: str, prefix: str = "", *, least: int = 0) -> int:
    """Return a whole number of a state.

    Raises:
        IntegrityError: it is missing, of another type (also true, 2.0 or "2") or below ``least``.
    """
    value = state.get(name)
    if type(value) is not int or value < least:
        _refuse(f"{prefix}{name}", value, f"no whole number of at least {least}")
    return value


def _table(state: Mapping[str, Any], name: str, bounds: Bounds) -> Mapping[str, Any]:
    value = state.get(name)
    if not isinstance(value, Mapping) or set(value) != set(bounds.domains):
        _refuse(name, value, f"no table of the domains {', '.join(bounds.domains)}")
    return value


def _positions(state: Mapping[str, Any], bounds: Bounds) -> list[int]:
    table = _table(state, "cursor", bounds)
    positions = []
    for domain, count in zip(bounds.domains, bounds.counts, strict=True):
        value = table[domain]
        if not isinstance(value, list | tuple) or len(value) != 2:
            _refuse(f"cursor.{domain}", value, "no pair of epoch and place")
        pair = dict(zip(("epoch", "place"), value, strict=True))
        epoch = whole(pair, "epoch", f"cursor.{domain}.")
        place = whole(pair, "place", f"cursor.{domain}.")
        if place >= count:
            _refuse(f"cursor.{domain}.place", place, f"beyond the {count} windows of an epoch")
        positions.append(epoch * count + place)
    return positions


def _resized(state: Mapping[str, Any]) -> tuple[int, int]:
    value = state.get("resized")
    if not isinstance(value, Mapping):
        _refuse("resized", value, "no table of step and drawn")
    return whole(value, "step", "resized."), whole(value, "drawn", "resized.")


def _refuse_wrong_sums(found: Counters, sequences: int, bounds: Bounds) -> None:
    step, drawn = found.resized
    total = sum(found.drawn)
    if step > found.step or drawn < step:
        _refuse("resized", {"step": step, "drawn": drawn}, f"impossible before step {found.step}")
    expected = drawn + (found.step - step) * sequences
    if total != expected:
        why = f"while {found.step} steps of {sequences} sequences draw {expected}"
        _refuse("drawn", total, f"the sum of all domains, {why}")
    begin = max(begin for begin in bounds.begins if begin == 0 or begin < found.step)
    # A state with more than one mixture was never resized: steps decide there.
    in_phase = total - begin * sequences
    drops = any(drawn >= limit for drawn, limit in zip(found.drawn, bounds.limits, strict=True))
    if sum(found.drawn_in_phase) != in_phase and not (
        drops and sum(found.drawn_in_phase) < in_phase
    ):
        why = f"the sum of all domains, while {in_phase} were drawn since the mixture changed"
        _refuse("drawn_in_phase", sum(found.drawn_in_phase), why)


def _refuse_wrong_domains(found: Counters, bounds: Bounds) -> None:
    for number, domain in enumerate(bounds.domains):
        drawn, position = found.drawn[number], found.positions[number]
        if drawn > bounds.limits[number]:
            why = f"more than the {bounds.limits[number]:.0f} after which it is dropped"
            _refuse(f"drawn.{domain}", drawn, why)
        if found.drawn_in_phase[number] > drawn:
            why = f"more than the {drawn} drawn in all"
            _refuse(f"drawn_in_phase.{domain}", found.drawn_in_phase[number], why)
        if position < drawn or (position > drawn and not bounds.weighted):
            cursor = list(divmod(position, bounds.counts[number]))
            why = f"{position} windows passed, while drawn.{domain} is {drawn}"
            _refuse(f"cursor.{domain}", cursor, why)


def _refuse(name: str, value: Any, why: str) -> NoReturn:
    raise IntegrityError(
        f"the stream's saved state has {name} {value!r}: {why}",
        remedy="remove this checkpoint to resume from the one before, or start a fresh run",
    )
