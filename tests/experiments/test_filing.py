"""Propose and register: numbered, whole, frozen, anchored, once."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import ConflictError, InvalidFileError, NotFoundError, NotRegisteredError
from workbench.experiments.checking import check
from workbench.experiments.filing import freeze, register
from workbench.experiments.proposing import propose
from workbench.experiments.registered import registered
from workbench.layout import Layout
from workbench.registry.entries import Anchor, Body, CodeState, DataState, Registration
from workbench.registry.heads import parse_head
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.seeds import time_locked_seed
from workbench.registry.verify import verify_log
from workbench.scaffold.lab import DEFAULT_RECIPE

CODE = CodeState(commit="0" * 40, dirty=False, workbench="0")


def test_propose_numbers_rise_over_whatever_is_there(layout: Layout) -> None:
    assert propose(layout, "First", owner="lead").name == "0001-first"
    (layout.experiments / "0007-By Hand").mkdir()
    assert propose(layout, "Après — l'été!", owner="lead").name == "0008-apres-l-ete"


def test_propose_fills_in_what_the_recipe_says(layout: Layout) -> None:
    text = (propose(layout, "First", owner="lead") / "proposal.md").read_text("utf-8")
    assert "manipulated: [mixture, balance.weight, phase_fractions]" in text
    assert "scales: [s1, s2]" in text
    assert "balance.weight = 0.01" in text
    assert f"recipe: {DEFAULT_RECIPE}" in text


def test_propose_own_recipe_gives_a_form_with_no_other_faults(
    layout: Layout, answer: Callable[[Path], None]
) -> None:
    text = (layout.root / DEFAULT_RECIPE).read_text("utf-8")
    text = text.replace("mixture-lambda-phases@1", "width@1")
    space = "space:\n  model.d_model:\n    kind: choice\n    values: [32, 64]\n"
    text = text[: text.index("space:\n")] + space
    text = text.replace("      model.d_model: 96\n", "")
    (layout.proxies / "width.yaml").write_text(text, "utf-8")
    folder = propose(layout, "Wide?", owner="lead", recipe="proxies/width.yaml")
    answer(folder)
    proposal = (folder / "proposal.md").read_text("utf-8")
    assert "kind: architecture" in proposal
    assert "model.d_model: 128" not in (folder / "full.yaml").read_text("utf-8")
    assert check(layout, "1").faults == ()


@pytest.mark.parametrize(
    "title",
    [
        "<script>alert('x')</script>: yes # no",
        '"; rm -rf / ---',
        "--- {{owner}} FILL",
        "../../etc/passwd",
        "a\\n\\t%2e%2e/x#/../..?",
        "\U0001f600 smiles",
    ],
)
def test_propose_hostile_title_stays_a_text_in_one_folder(
    layout: Layout, answer: Callable[[Path], None], title: str
) -> None:
    """B8."""
    folder = propose(layout, title, owner='"o": # {{title}}')
    answer(folder)
    assert folder.parent == layout.experiments
    proposal = check(layout, "1").proposal
    assert proposal is not None
    assert (proposal.title, proposal.owner) == (title, '"o": # {{title}}')


@pytest.mark.parametrize(
    "title", ["", "  ", "a\nb", "a\x00b", "x" * 201, "日本語", "a\u2028b", "\u202ea b"]
)
def test_propose_unusable_title_writes_nothing(layout: Layout, title: str) -> None:
    before = sorted(layout.experiments.iterdir())
    with pytest.raises(InvalidFileError):
        propose(layout, title, owner="lead")
    assert sorted(layout.experiments.iterdir()) == before


@pytest.mark.parametrize("recipe", ["proxies/none.yaml", "../x.yaml", "/etc/passwd", "proxies"])
def test_propose_unknown_recipe_is_not_found(layout: Layout, recipe: str) -> None:
    with pytest.raises(NotFoundError, match=r"known: proxies/mixture-lambda-phases\.yaml"):
        propose(layout, "First", owner="lead", recipe=recipe)


def test_propose_faulty_recipe_is_refused_with_its_lines(layout: Layout) -> None:
    file = layout.root / DEFAULT_RECIPE
    file.write_text(file.read_text("utf-8").replace("steps: 120", "steps: 0"), "utf-8")
    with pytest.raises(InvalidFileError, match=r"base\.steps must be at least 1"):
        propose(layout, "First", owner="lead")


def test_propose_interrupted_while_writing_leaves_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    before = sorted(layout.experiments.iterdir())
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        propose(layout, "First", owner="lead")
    assert sorted(layout.experiments.iterdir()) == before


def test_propose_after_a_kill_removes_what_was_left(layout: Layout) -> None:
    left = layout.experiments / ".0001-half"
    left.mkdir()
    (left / "proposal.md").write_text("half", "utf-8")
    assert propose(layout, "First", owner="lead").name == "0001-first"
    assert not left.exists()


def test_propose_eight_at_once_get_eight_numbers(layout: Layout) -> None:
    def number(_: int) -> str:
        return propose(layout, "Same question", owner="lead").name[:4]

    # A file lock holds between threads as between processes: each call opens the file anew.
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(number, range(8)))
    assert sorted(numbers) == [f"{number:04d}" for number in range(1, 9)]


def test_freeze_holds_the_files_word_for_word(
    layout: Layout, folder: Path, corpus: DataState
) -> None:
    body = freeze(layout, "1", corpus_state=corpus, code=CODE, environment={"python": "3"})
    assert body.experiment == folder.name
    assert body.proposal.text.encode() == (folder / "proposal.md").read_bytes()
    assert body.recipe.path == DEFAULT_RECIPE
    assert body.control["balance"] == {"weight": 0.01}
    assert body.arms == ["control", "treatment"]
    assert body.num_seeds == 3
    read_back = Registration.model_validate(body.to_json())
    assert read_back.proposal == body.proposal
    assert read_back.frozen["decision"]["alpha"] == "0.05"


def test_freeze_faulty_files_are_refused_with_every_fault(
    layout: Layout, corpus: DataState
) -> None:
    propose(layout, "First", owner="lead")
    with pytest.raises(InvalidFileError) as refused:
        freeze(layout, "1", corpus_state=corpus, code=CODE, environment={})
    assert len(refused.value.faults) == 14


@pytest.mark.parametrize(
    "other",
    [
        {"corpus": "builtin-code-docs-math@2"},
        {"natural_mixture": {"code": 1.0}},
        {"tokens": {"test_math": 100}},
    ],
)
def test_freeze_corpus_that_is_not_the_recipes_is_refused(
    layout: Layout, folder: Path, corpus: DataState, other: dict[str, object]
) -> None:
    wrong = corpus.model_copy(update=other)
    with pytest.raises(ConflictError, match="the corpus"):
        freeze(layout, "1", corpus_state=wrong, code=CODE, environment={})


def test_register_appends_anchors_and_derives_the_seeds(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    receipt = register(layout, "0001", ledger=ledger, corpus=corpus)
    assert [entry.kind for entry in ledger.entries()] == ["genesis", "registration", "anchor"]
    assert receipt.registration.signature
    assert receipt.anchor.refs == (receipt.registration.leaf,)
    anchor = receipt.anchor.body
    assert isinstance(anchor, Anchor)
    # The head inside covers the registration; the receipt's covers the anchor as well.
    assert parse_head(anchor.head).size == anchor.tree_size == 2
    assert receipt.head.size == 3
    leaf = receipt.registration.leaf
    assert receipt.seeds == tuple(time_locked_seed(anchor.head, leaf, i) for i in range(3))
    assert len(set(receipt.seeds)) == 3
    assert receipt.plan is not None
    assert not receipt.resumed


def test_register_then_registered_gives_what_was_frozen_not_the_files(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    receipt = register(layout, "1", ledger=ledger, corpus=corpus)
    (committed / "proposal.md").write_text("changed", "utf-8")
    (layout.root / DEFAULT_RECIPE).unlink()
    found = registered(ledger, committed.name)
    assert found.seeds == receipt.seeds
    assert found.proposal.decision.margin == 0.01
    assert found.recipe.base.steps == 120
    assert found.full.config(found.recipe).steps == 2 * 120


def test_register_twice_is_refused_and_appends_nothing(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    register(layout, "1", ledger=ledger, corpus=corpus)
    with pytest.raises(ConflictError, match=rf"{committed.name} was registered at .* \(entry 1\)"):
        register(layout, "1", ledger=ledger, corpus=corpus)
    assert ledger.head().size == 3


@pytest.mark.parametrize("of", ["the experiment", "the recipe's name"])
def test_register_that_another_machine_forestalls_is_refused(
    layout: Layout,
    committed: Path,
    ledger: Ledger,
    corpus: DataState,
    monkeypatch: pytest.MonkeyPatch,
    of: str,
) -> None:
    """Its lock is not ours, the log is: a second registration would make it fail for ever."""
    append, left = Ledger.append, ["raced"]
    subject = committed.name if of == "the experiment" else "0009-of-somebody-else"

    def raced(self: Ledger, body: Body, **options: Any) -> Entry:
        if left and isinstance(body, Registration):
            left.pop()
            recipe = body.recipe
            if of != "the experiment":
                text = re.sub(r"(?m)^( +steps: )[0-9]+", r"\g<1>7", recipe.text)
                recipe = recipe.model_copy(update={"text": text, "sha256": "0" * 64})
            append(self, body.model_copy(update={"recipe": recipe}), subject=subject)
        return append(self, body, **options)

    monkeypatch.setattr(Ledger, "append", raced)
    with pytest.raises((ConflictError, InvalidFileError), match="was registered"):
        register(layout, "1", ledger=ledger, corpus=corpus)
    assert [entry.subject for entry in ledger.entries(kind="registration")] == [subject]
    assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_register_interrupted_before_the_anchor_goes_on(
    layout: Layout,
    committed: Path,
    ledger: Ledger,
    corpus: DataState,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Ledger.append

    def killed(self: Ledger, body: object, **options: object) -> object:
        if isinstance(body, Anchor):
            raise KeyboardInterrupt
        return append(self, body, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            register(layout, "1", ledger=ledger, corpus=corpus)
    with pytest.raises(NotRegisteredError, match="interrupted before its anchor"):
        registered(ledger, committed.name)
    receipt = register(layout, "1", ledger=ledger, corpus=corpus)
    assert receipt.resumed
    assert [entry.kind for entry in ledger.entries()] == ["genesis", "registration", "anchor"]
    assert registered(ledger, committed.name).seeds == receipt.seeds


def test_register_dirty_tree_is_refused_and_names_the_files(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    text = (committed / "proposal.md").read_text("utf-8")
    (committed / "proposal.md").write_text(f"{text}\nMore.\n", "utf-8")
    for number in range(20):
        (layout.root / f"new-{number:02d}.py").write_text("x = 1\n", "utf-8")
    with pytest.raises(ConflictError, match="21 uncommitted changes") as refused:
        register(layout, "1", ledger=ledger, corpus=corpus)
    assert f"experiments/{committed.name}/proposal.md" in str(refused.value)
    assert "and 9 more" in str(refused.value)
    assert ledger.head().size == 1


def test_register_generated_folders_do_not_make_the_tree_dirty(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    (layout.registry / "checkpoint").write_text("x", "utf-8")
    (layout.reports / "index.html").write_text("x", "utf-8")
    receipt = register(layout, "1", ledger=ledger, corpus=corpus)
    body = receipt.registration.body
    assert isinstance(body, Registration)
    assert not body.code.dirty


def test_register_outside_git_is_refused(
    layout: Layout, folder: Path, ledger: Ledger, corpus: DataState, git: Callable[..., str]
) -> None:
    with pytest.raises(ConflictError, match="not in a git work tree with a commit"):
        register(layout, "1", ledger=ledger, corpus=corpus)
    git("init", "-q")  # a repository without a commit pins nothing either
    with pytest.raises(ConflictError, match="not in a git work tree with a commit"):
        register(layout, "1", ledger=ledger, corpus=corpus)
    assert ledger.head().size == 1


def test_register_faults_are_told_before_the_dirty_tree(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    text = (committed / "proposal.md").read_text("utf-8")
    (committed / "proposal.md").write_text(text.replace("fixed(3)", "fixed(4)"), "utf-8")
    with pytest.raises(InvalidFileError, match="fixed"):
        register(layout, "1", ledger=ledger, corpus=corpus)


def test_registered_unregistered_experiment_says_how_to_register_or_explore(
    folder: Path, ledger: Ledger
) -> None:
    with pytest.raises(NotRegisteredError) as refused:
        registered(ledger, folder.name)
    assert "workbench register 0001" in refused.value.remedy
    assert "--exploratory" in refused.value.remedy
