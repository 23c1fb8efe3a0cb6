"""Change what was registered, in the open: what differs, what was known, what it does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from workbench.errors import ConflictError, Fault, InvalidFileError
from workbench.experiments.checking import Checked, check
from workbench.experiments.filing import check_corpus, check_evaluation_set
from workbench.experiments.floors import noise_floors
from workbench.experiments.identity import NOT_IN_FORCE
from workbench.experiments.locks import at_rest
from workbench.experiments.planned_rules import decision_of
from workbench.experiments.registered import registered, registration_body
from workbench.experiments.stated_power import stated_power
from workbench.experiments.unraced import Wanted, append_unraced
from workbench.layout import Layout
from workbench.proxies.document_changes import (
    NAMES,
    Documents,
    documents_of,
    field_changes,
)
from workbench.registry.amended import (
    EFFECTS,
    Course,
    Known,
    course_of,
    is_confirmatory_work,
)
from workbench.registry.entries import (
    Amendment,
    DataState,
    FieldChange,
    Look,
    Promotion,
    ProxyRun,
    ReasonClass,
    SweepStarted,
    Trial,
)
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource

REASON_CLASSES: tuple[ReasonClass, ...] = get_args(ReasonClass)

_SWEEP = ("proposal sweep", "proposal design.manipulated", "proposal measures.primary",
          "proposal divergence.loss_above", "proposal divergence.patience", "recipe")  # fmt: skip
_LADDER = ("proposal sweep.rerun", "proposal sweep.tie_break", "proposal design.scales")
_PROMOTION = ("proposal promotion.scaling_rules", "proposal promotion.forecast", "full")


@dataclass(frozen=True, kw_only=True)
class DraftAmendment:
    """What `amend` would record, before anybody decides."""

    experiment: str
    registration: Entry
    """As it is in force: with the content of the newest earlier amendment."""
    earlier: tuple[Entry, ...]
    """The amendments before this one."""
    changes: tuple[FieldChange, ...]
    """Every field that differs from what is in force; never empty."""
    known: Known
    num_values: int
    """Trials of the sweep whose value was shown before: they choose candidates, as a pilot does."""
    effect: str
    """What it will mean for the verdict."""
    warnings: tuple[Fault, ...]
    """What `check` remarks of the amended files."""
    checked: Checked

    @property
    def changes_corpus(self) -> bool:
        """Whether another corpus must be built for it."""
        return any(
            change.document == "recipe" and change.path.partition(".")[0] == "corpus"
            for change in self.changes
        )


def draft_amendment(layout: Layout, number: str, *, source: LogSource) -> DraftAmendment:
    """Return what an amendment by the files as they are now would change and mean.

    Args:
        layout: The lab.
        number: ``NNNN``, ``N`` or ``NNNN-slug``.
        source: The log.

    Raises:
        NotRegisteredError: there is nothing to amend.
        ConflictError: nothing differs, it is withdrawn or decided, or a change is to what has run.
        InvalidFileError: the files have faults; carries all of them.
    """
    experiment = layout.experiment(number).name
    course = course_of(source, experiment)
    in_force = registered(source, experiment).entry
    _refuse_closed(course, experiment)
    checked = check(layout, number, source=source)
    checked.require()
    changes = field_changes(documents_of(registration_body(in_force)), _documents(checked))
    if not changes:
        raise ConflictError(
            f"the files of {experiment} promise what is in force: there is nothing to amend "
            "(comments and layout are no promise)",
            remedy=f"edit the files, then workbench amend {experiment[:4]}",
        )
    entries = list(source.entries(subject=experiment))
    _refuse_changed_past(changes, course, entries)
    _refuse_other_looks(checked, source, entries)
    known = course.known()
    return DraftAmendment(
        experiment=experiment,
        registration=in_force,
        earlier=tuple(amendment.entry for amendment in course.amendments),
        changes=tuple(changes),
        known=known,
        num_values=sum(
            isinstance(e.body, Trial) and is_confirmatory_work(e) and e.body.value is not None
            for e in entries
        ),
        effect=EFFECTS[known.timing],
        warnings=tuple(w for w in checked.warnings if w.message != NOT_IN_FORCE),
        checked=checked,
    )


def amend(
    layout: Layout,
    shown: DraftAmendment,
    *,
    ledger: Ledger,
    reason_class: ReasonClass,
    reason: str,
    data: DataState | None = None,
) -> Entry:
    """Append the amendment that was shown, if it is still what it would be.

    It is one entry: an interrupted call has amended, or has not.

    Args:
        layout: The lab.
        shown: What whoever decides has seen.
        ledger: The lab's ledger.
        reason_class: Why, in one word.
        reason: Why, in a sentence.
        data: State of the newly built corpus where the recipe's corpus changed; else None.

    Raises:
        InvalidFileError: there is no reason, or the files have faults by now.
        ConflictError: the files or the log changed meanwhile, or the experiment is at work.
    """
    require_reason(reason, "an amendment")
    number = shown.experiment[:4]

    def look() -> Wanted:
        now = draft_amendment(layout, number, source=ledger)
        if (now.changes, now.known.timing) != (shown.changes, shown.known.timing):
            raise ConflictError(
                f"the files of {shown.experiment} or what is known of it changed since the "
                "amendment was shown",
                remedy=f"workbench amend {number}   (look at it again)",
            )
        body = _body(now, reason_class=reason_class, reason=reason, data=data)
        return Wanted(
            body=body, refs=[now.registration.leaf, *(entry.leaf for entry in now.earlier)]
        )

    with at_rest(layout, ledger, shown.experiment):
        return append_unraced(ledger, shown.experiment, look)


def require_reason(reason: str, what: str) -> None:
    """Do nothing if a reason was given.

    Raises:
        InvalidFileError: it is empty.
    """
    if not reason.strip():
        raise InvalidFileError(
            f"{what} without a reason tells a reader nothing", remedy='--reason "one sentence"'
        )


def _body(
    draft: DraftAmendment, *, reason_class: ReasonClass, reason: str, data: DataState | None
) -> Amendment:
    checked, before = draft.checked, registration_body(draft.registration)
    if checked.proposal is None or checked.recipe is None:
        raise InvalidFileError(f"{draft.experiment} is incomplete")
    corpus = data if draft.changes_corpus and data is not None else before.data
    check_corpus(checked.recipe, corpus)
    check_evaluation_set(checked.experiment, checked.proposal, corpus)
    documents = _documents(checked)
    return Amendment(
        experiment=draft.experiment,
        changes=list(draft.changes),
        reason_class=reason_class,
        reason=reason.strip(),
        timing=draft.known.timing,
        rests_on=[entry.id for entry in draft.known.rests_on],
        effect=draft.effect,
        proposal=documents["proposal"],
        recipe=documents["recipe"],
        full=documents["full"],
        frozen=checked.proposal.model_dump(mode="json"),
        control=checked.recipe.control(),
        data=corpus,
        num_seeds=checked.proposal.design.seeds,
        power=stated_power(checked),
    )


def _documents(checked: Checked) -> Documents:
    missing = [name for name in NAMES if name not in checked.documents]
    if missing:
        raise InvalidFileError(f"{checked.experiment} has no {missing[0]} file")
    return {name: checked.documents[name] for name in NAMES}


def _refuse_closed(course: Course, experiment: str) -> None:
    number = experiment[:4]
    if course.verdict is not None:
        raise ConflictError(
            f"{experiment} has its verdict (entry {course.verdict.sequence}): a promise is not "
            "changed after it was judged",
            remedy=f'workbench note -e {number} "what you know now"; a new question is a new '
            "proposal",
        )


def _refuse_changed_past(changes: list[FieldChange], course: Course, entries: list[Entry]) -> None:
    """Refuse changes of what has already run: the record would show runs that nobody promised.

    Raises:
        ConflictError: names each such field with what ran.
    """
    used = list(_used(changes, course, _first_by_kind(entries)))
    if not used:
        return
    number = entries[0].subject[:4]
    named = "".join(f"\n    {text}" for text in used)
    files = "the file" if len(used) == 1 else "the files"
    raise ConflictError(
        f"what has already run cannot be changed:{named}",
        remedy=f"put {files} back as registered and amend the rest, or give it up and propose "
        f'anew: workbench withdraw {number} --reason "why"',
    )


def _refuse_other_looks(checked: Checked, source: LogSource, entries: list[Entry]) -> None:
    """Refuse a stopping rule that would not have looked where it was looked.

    Raises:
        ConflictError: names the looks that were taken and those that the files promise.
    """
    bodies = [entry.body for entry in entries if is_confirmatory_work(entry)]
    taken = [body.num_seeds for body in bodies if isinstance(body, Look)]
    proposal = checked.proposal
    if not taken or proposal is None:
        return
    floor = proposal.decision.noise_floor
    looks = decision_of(proposal, noise_floors(source, floor) if floor else {}).looks()
    if list(looks[: len(taken)]) != taken:
        number = checked.experiment[:4]
        raise ConflictError(
            f"{proposal.decision.stopping} would look at {_listed(looks)} seeds an arm, but the "
            f"outcomes were looked at with {_listed(taken)}",
            remedy="write a stopping rule that begins with the looks that were taken, or give it "
            f'up and propose anew: workbench withdraw {number} --reason "why"',
        )


def _listed(numbers: Sequence[int]) -> str:
    shown = [str(n) for n in numbers[:6]] + (["…"] if len(numbers) > 6 else [])
    return ", ".join(shown)


def _first_by_kind(entries: list[Entry]) -> Mapping[str, Entry]:
    first: dict[str, Entry] = {}
    for entry in entries:
        if is_confirmatory_work(entry):
            first.setdefault(entry.kind, entry)
    return first


def _used(changes: list[FieldChange], course: Course, first: Mapping[str, Entry]) -> Iterator[str]:
    swept = first.get(SweepStarted.kind) or first.get(Trial.kind)
    stages = (
        (_PROMOTION, first.get(Promotion.kind), "the promotion was made by it"),
        (_LADDER, first.get(ProxyRun.kind), "the ladder began under it"),
        (_SWEEP, swept, "the sweep began under it"),
    )
    for change in changes:
        key = f"{change.document} {change.path}"
        if change.document == "proposal" and change.path == "design.seeds":
            yield from _fewer_seeds(change, course)
            continue
        for fields, entry, what in stages:
            if any(_within(key, name) for name in fields):
                if entry is not None:
                    yield f"{key}: {what} (entry {entry.sequence})"
                break


def _within(key: str, name: str) -> bool:
    return key == name or key.startswith((f"{name}.", f"{name} "))


def _fewer_seeds(change: FieldChange, course: Course) -> Iterator[str]:
    wanted = change.new if isinstance(change.new, int) else 0
    if wanted < course.num_seeds_run:
        yield (
            f"proposal design.seeds: {wanted} are fewer than have run "
            f"(seed {course.num_seeds_run - 1} began)"
        )
