"""Training ends as its rules say, and a resumed run is the uninterrupted one to the last bit."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench.errors import ConflictError, InvalidFileError, StoreUnavailableError
from workbench.sentinel.telemetry import read_rows
from workbench.training import fit as fit_module
from workbench.training import sampling
from workbench.training.attempts import attempt_trace, resume_point
from workbench.training.checkpoints import checkpoint_path, read_checkpoint
from workbench.training.evaluate import evaluate, load_weights, validation_windows
from workbench.training.fit import fit
from workbench.training.inference_gap import validation_values
from workbench.training.interruption import Interrupted
from workbench.training.module import RunIdentity
from workbench.training.recorder import StopRun
from workbench.training.results import DivergenceRule
from workbench.training.run_folder import exclusive, telemetry_path

NEVER = DivergenceRule(loss_above=1000.0, patience=3)


class Listener:
    """A recorder that keeps what it hears and may act at a step."""

    def __init__(self, at=None, act=None):
        self.rows, self.evaluations, self.checkpoints = [], [], []
        self.closed = 0
        self._at, self._act = at, act

    def telemetry(self, row):
        self.rows.append(row)
        if row.step == self._at and self._act:
            self._act()

    def evaluation(self, step, values):
        self.evaluations.append((step, dict(values)))

    def checkpoint(self, step, path, sha256):
        self.checkpoints.append((step, path, sha256))

    def close(self):
        self.closed += 1


class Killed(BaseException):
    """Stands for the process's death: nothing after it runs but what a real kill would leave."""


def die():
    raise Killed


@pytest.fixture
def drawn(monkeypatch) -> list[np.ndarray]:
    """The tokens of every step that any fit draws, in order."""
    batches: list[np.ndarray] = []

    class Spy(sampling.TokenStream):
        def next_step(self):
            batch = super().next_step()
            batches.append(batch.tokens.copy())
            return batch

    monkeypatch.setattr(sampling, "TokenStream", Spy)
    return batches


def train(config, corpus, folder, *recorders, seed=7, divergence=NEVER, **more):
    return fit(
        config,
        corpus,
        seed=seed,
        folder=folder,
        recorders=recorders,
        divergence=divergence,
        **{"accelerator": "cpu", **more},
    )


def assert_equal(one: Any, other: Any, path: str = "") -> None:
    """Equal to the last bit, tensors and all."""
    assert type(one) is type(other), path
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), path
    elif isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            assert_equal(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_equal(*pair, f"{path}[{number}]")
    else:
        assert one == other, path


def state_of(result) -> dict[str, Any]:
    return read_checkpoint(result.checkpoint.path, result.checkpoint.sha256)


def test_run_completes_with_metrics_curve_and_checkpoint(make_config, corpus, tmp_path):
    listener = Listener()
    seen = []
    result = train(
        make_config(), corpus, tmp_path, listener, progress=lambda *now: seen.append(now)
    )
    assert (result.outcome, result.reason, result.warnings) == ("completed", "", ())
    assert (result.attempt, result.from_step, result.last_step) == (1, 0, 12)
    assert result.tokens == 12 * 4 * 16
    assert result.device_seconds > 0
    assert [step for step, _ in result.evaluations] == [6, 12]
    assert result.final == result.evaluations[-1][1]
    assert set(result.final) == {"bpb_macro", "bpb_code", "bpb_docs"}
    assert [step for step, _ in result.curve] == list(range(1, 13))
    assert result.curve[-1][1] < result.curve[0][1]
    assert [step for step, _, _ in listener.checkpoints] == [4, 8, 12]
    assert listener.evaluations == list(result.evaluations)
    assert listener.closed == 1
    assert [now[:2] for now in seen] == [(step, 12) for step in range(1, 13)]
    assert result.mixture.tokens == {"code": 384, "docs": 384}
    assert sorted(p.name for p in (tmp_path / "checkpoints").glob("*.ckpt")) == [
        "step-00000008.ckpt",
        "step-00000012.ckpt",
    ]
    rows = list(read_rows(telemetry_path(tmp_path, 1)))
    assert [row.step for row in rows] == list(range(1, 13))
    assert attempt_trace(tmp_path, 1).telemetry_sha256 == result.telemetry_sha256
    assert attempt_trace(tmp_path, 1).evaluations == result.evaluations


def test_same_seed_gives_the_same_run_and_another_seed_another(make_config, corpus, tmp_path):
    config = make_config()
    one, two = (train(config, corpus, tmp_path / name) for name in ("one", "two"))
    assert one.curve == two.curve
    assert one.final == two.final
    assert_equal(state_of(one)["state_dict"], state_of(two)["state_dict"])
    assert train(config, corpus, tmp_path / "three", seed=8).curve != one.curve


@pytest.mark.parametrize("killed_at", [5, 8, 9, 11])
def test_killed_run_resumes_equal_to_the_last_bit(make_config, corpus, tmp_path, drawn, killed_at):
    """A1 A10 A13 A6: data, learning rates, weights and optimizer as if nothing had happened."""
    config = make_config()
    whole = Listener()
    uninterrupted = train(config, corpus, tmp_path / "whole", whole)
    expected = list(drawn)
    drawn.clear()

    first, second = Listener(killed_at, die), Listener()
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", first)
    from_step = resume_point(tmp_path / "cut").from_step
    # Killed in the record of a step, before that step's checkpoint.
    assert from_step == (killed_at - 1) // 4 * 4
    del drawn[from_step:]
    resumed = train(config, corpus, tmp_path / "cut", second)

    assert (resumed.attempt, resumed.from_step) == (2, from_step)
    assert [row.step for row in second.rows] == list(range(from_step + 1, 13))
    assert len(drawn) == len(expected)
    for got, wanted in zip(drawn, expected, strict=True):
        assert np.array_equal(got, wanted)
    steps = [*first.rows[:from_step], *second.rows]
    for field in ("lr", "loss", "grad_norm", "tokens", "router_entropy", "aux_loss"):
        assert [getattr(r, field) for r in steps] == [getattr(r, field) for r in whole.rows], field
    one, other = state_of(uninterrupted), state_of(resumed)
    for key in ("state_dict", "optimizer_states", "loops", "workbench"):
        assert_equal(one[key], other[key], key)
    assert resumed.final == uninterrupted.final
    assert resumed.mixture == uninterrupted.mixture


@pytest.mark.parametrize(
    "more",
    [
        {"batch__documents": "masked"},
        {"document_weights": {"first": 0.999, "last": 0.97}},
        {"availability": {"max_epochs": {"code": 0.01}, "exhausted": "drop"}},
    ],
)
def test_killed_run_with_the_data_side_s_options_resumes_equal_to_the_last_bit(
    make_config, corpus, tmp_path, more
):
    """A1 D2 D12: masked documents, weighted documents, a domain dropped after some steps."""
    config = make_config(**more)
    whole = train(config, corpus, tmp_path / "whole")
    plain = train(make_config(), corpus, tmp_path / "plain")
    assert whole.curve != plain.curve
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", Listener(7, die))
    resumed = train(config, corpus, tmp_path / "cut")
    assert resumed.from_step == 4
    for key in ("state_dict", "optimizer_states", "loops", "workbench"):
        assert_equal(state_of(whole)[key], state_of(resumed)[key], key)
    assert resumed.mixture == whole.mixture


@pytest.mark.parametrize(
    "more",
    [
        {
            "model__routing": {"scores": "sigmoid", "bias": True, "refresh_every": 3},
            "balance__bias_rate": 0.01,
            "balance__scope": "global_batch",
            "balance__stability_weight": 0.1,
            "balance__stability_definition": "kl(P||ema(P))@1",
        },
        {"model__routing": {"kind": "gumbel", "capacity_factor": 1.0}},
    ],
    ids=["biases", "gumbel"],
)
def test_killed_run_with_the_router_s_options_resumes_equal_to_the_last_bit(
    make_config, corpus, tmp_path, more
):
    """A1: biases, held rule, moving average and noise as if nothing had happened."""
    config = make_config(**more)
    whole = train(config, corpus, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", Listener(7, die))
    resumed = train(config, corpus, tmp_path / "cut")
    assert resumed.from_step == 4
    for key in ("state_dict", "optimizer_states", "loops", "workbench"):
        assert_equal(state_of(whole)[key], state_of(resumed)[key], key)
    assert resumed.final == whole.final
    checkpoint = resumed.checkpoint
    model = load_weights(config, checkpoint.path, checkpoint.sha256)
    assert validation_values(model, validation_windows(corpus, config)) == resumed.final


def test_killed_run_with_all_the_data_side_s_options_serves_each_sample_once(
    make_config, corpus, tmp_path, drawn
):
    """A1 D2: weighted and masked documents and a dropped domain together, killed and resumed."""
    config = make_config(
        batch__documents="masked",
        document_weights={"first": 0.999, "last": 0.97},
        availability={"max_epochs": {"code": 0.02}, "exhausted": "drop"},
    )
    whole = train(config, corpus, tmp_path / "whole")
    expected = list(drawn)
    drawn.clear()
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", Listener(7, die))
    del drawn[4:]  # resumed from the checkpoint of step 4
    resumed = train(config, corpus, tmp_path / "cut")
    assert resumed.from_step == 4
    assert np.array_equal(np.stack(drawn), np.stack(expected))
    for key in ("state_dict", "optimizer_states", "loops", "workbench"):
        assert_equal(state_of(whole)[key], state_of(resumed)[key], key)
    assert resumed.mixture == whole.mixture
    assert 0 < whole.mixture.shares["code"] < 0.5 == whole.mixture.stated["code"]

    served = [
        (step, sample)
        for step in range(1, 13)
        for sample in sampling.samples_at(config, corpus, 7, step)
    ]
    for step, sample in served:
        tokens = corpus.tokens("train", sample.domain)[sample.first_token : sample.last_token + 1]
        assert np.array_equal(drawn[step - 1][sample.row], tokens)
    ids = [(sample.domain, sample.epoch, sample.window) for _, sample in served]
    assert len(set(ids)) == len(ids) == 48


def test_run_leaves_no_thread_behind(make_config, corpus, tmp_path):
    """Also a run that ends before its last step, with batches made ahead."""
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die))
    assert not [t for t in threading.enumerate() if t.name == "made-ahead"]


def test_run_that_needs_more_text_than_there_is_does_not_start(make_config, corpus, tmp_path):
    config = make_config(availability={"max_epochs": 0.01, "exhausted": "refuse"})
    with pytest.raises(InvalidFileError, match=r"gone through .* times of at most 0.01"):
        train(config, corpus, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_identity_names_no_option_that_is_off(make_config):
    """So that a run resumes that was begun before the option existed."""
    identity = RunIdentity(config=make_config(), seed=7, corpus="sha256:0").plain()
    assert not {"document_weights", "availability"} & set(identity)
    assert "documents" not in identity["batch"]
    assert "routing" not in identity["model"]
    assert list(identity["balance"]) == ["weight", "definition", "scope", "z_loss_weight"]


KILL_ITSELF = """
import json, os, signal, sys
from pathlib import Path
import torch
from workbench.data.corpus import Corpus
from workbench.data.manifest import read_manifest
from workbench.training.config import RunConfig
from workbench.training.fit import fit
from workbench.training.results import DivergenceRule
folder, corpus, config, at = sys.argv[1:]
torch.set_num_threads(1)

class Killer:
    def telemetry(self, row):
        if row.step == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
    def evaluation(self, step, values): pass
    def checkpoint(self, step, path, sha256): pass
    def close(self): pass

fit(
    RunConfig.model_validate(json.loads(config)),
    Corpus(folder=Path(corpus), manifest=read_manifest(Path(corpus))),
    seed=7,
    folder=Path(folder),
    recorders=[Killer()],
    divergence=DivergenceRule(loss_above=1000.0, patience=3),
    accelerator="cpu",
)
"""


@pytest.mark.slow
def test_process_killed_twice_ends_equal_to_one_that_was_not(make_config, corpus, tmp_path):
    """A1 A2 A10 A13: SIGKILL at steps 6 and 11 of 12, in real processes."""
    config = make_config()
    whole = train(config, corpus, tmp_path / "whole")
    cut = tmp_path / "cut"
    for at in (6, 11):
        arguments = [str(cut), str(corpus.folder), config.model_dump_json(), str(at)]
        dead = subprocess.run([sys.executable, "-c", KILL_ITSELF, *arguments], check=False)
        assert dead.returncode == -signal.SIGKILL
    assert [attempt_trace(cut, n).last_step for n in (1, 2)] == [6, 11]
    assert attempt_trace(cut, 2).first_step == 5
    last = train(config, corpus, cut)
    assert (last.attempt, last.from_step) == (3, 8)
    assert last.final == whole.final
    assert last.mixture == whole.mixture
    for key in ("state_dict", "optimizer_states", "loops", "workbench"):
        assert_equal(state_of(whole)[key], state_of(last)[key], key)


def test_run_killed_before_its_first_checkpoint_starts_again(make_config, corpus, tmp_path):
    config = make_config()
    with pytest.raises(Killed):
        train(config, corpus, tmp_path, Listener(2, die))
    result = train(config, corpus, tmp_path)
    assert (result.attempt, result.from_step, result.parent_checkpoint) == (2, 0, "")


def test_damaged_newest_checkpoint_is_rejected_and_the_one_before_used(
    make_config, corpus, tmp_path
):
    """A2: truncated to half, rejected by checksum; both facts are in the result."""
    config = make_config()
    whole = train(config, corpus, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", Listener(10, die))
    newest = checkpoint_path(tmp_path / "cut" / "checkpoints", 8)
    os.truncate(newest, newest.stat().st_size // 2)
    result = train(config, corpus, tmp_path / "cut")
    assert result.from_step == 4
    assert [r.step for r in result.rejected_checkpoints] == [8]
    assert newest.with_name("step-00000008.ckpt.rejected").exists()
    assert_equal(state_of(whole)["state_dict"], state_of(result)["state_dict"])


def test_complete_run_is_not_trained_again(make_config, corpus, tmp_path, drawn):
    config = make_config()
    first = train(config, corpus, tmp_path)
    drawn.clear()
    again = train(config, corpus, tmp_path)
    assert drawn == []
    assert (again.outcome, again.attempt, again.from_step) == ("completed", 2, 12)
    assert again.final == first.final
    assert again.mixture == first.mixture
    assert (again.tokens, again.curve, again.evaluations) == (0, (), ())
    assert again.checkpoint == first.checkpoint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_after_the_step_and_saves_it(make_config, corpus, tmp_path, number):
    """A9: neither exits the process nor counts as finished; nothing is lost."""
    config = make_config()
    whole = train(config, corpus, tmp_path / "whole")
    before = signal.getsignal(number)
    listener = Listener(6, lambda: signal.raise_signal(number))
    with pytest.raises(Interrupted) as caught:
        train(config, corpus, tmp_path / "cut", listener)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert (caught.value.signal_name, caught.value.last_step) == (number.name, 6)
    assert signal.getsignal(number) is before
    assert listener.closed == 1
    assert resume_point(tmp_path / "cut").from_step == 6
    resumed = train(config, corpus, tmp_path / "cut")
    assert_equal(state_of(whole)["state_dict"], state_of(resumed)["state_dict"])


def test_second_interrupt_does_not_wait_for_the_step(make_config, corpus, tmp_path):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    listener = Listener(6, twice)
    with pytest.raises(Interrupted):
        train(make_config(), corpus, tmp_path, listener)
    assert listener.closed == 1
    assert resume_point(tmp_path).from_step == 4


def test_training_outside_the_main_thread_leaves_signals_alone(make_config, corpus, tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(train(make_config(), corpus, tmp_path)))
    thread.start()
    thread.join()
    assert results[0].outcome == "completed"


def test_pruned_run_ends_at_the_evaluation(make_config, corpus, tmp_path):
    class Pruner(Listener):
        def evaluation(self, step, values):
            raise StopRun(f"worse than the median at step {step}")

    other = Listener()
    result = train(make_config(), corpus, tmp_path, Pruner(), other)
    assert (result.outcome, result.last_step) == ("pruned", 6)
    assert result.reason == "worse than the median at step 6"
    assert result.final is None
    assert [step for step, _ in result.evaluations] == [6]
    assert other.evaluations  # a pruner does not keep the others from hearing


def test_request_to_prune_at_the_last_step_comes_too_late(make_config, corpus, tmp_path):
    class Late(Listener):
        def evaluation(self, step, values):
            if step == 12:
                raise StopRun("late")

    result = train(make_config(), corpus, tmp_path, Late())
    assert (result.outcome, result.reason) == ("completed", "")
    assert result.checkpoint.step == 12


def test_loss_above_the_threshold_for_its_patience_is_a_divergence(make_config, corpus, tmp_path):
    result = train(
        make_config(), corpus, tmp_path, divergence=DivergenceRule(loss_above=0.1, patience=5)
    )
    assert (result.outcome, result.last_step, result.final) == ("diverged", 5, None)
    assert "above 0.1 for 5 steps" in result.reason
    assert result.checkpoint.step == 4


def test_patience_counts_across_a_restart(make_config, corpus, tmp_path):
    rule = DivergenceRule(loss_above=0.1, patience=7)
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die), divergence=rule)
    result = train(make_config(), corpus, tmp_path, divergence=rule)
    assert (result.from_step, result.last_step, result.outcome) == (4, 7, "diverged")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_ends_the_run_at_once(
    make_config, corpus, tmp_path, monkeypatch, value
):
    """A NaN never trains on, never becomes a number, and leaves the last good state."""
    real = fit_module.PretrainModule._objective

    def poisoned(self, batch, num_targets, weight):
        objective, means = real(self, batch, num_targets, weight)
        if self.done + 1 == 6:
            means = means.clone()
            means[0] = value
        return objective, means

    monkeypatch.setattr(fit_module.PretrainModule, "_objective", poisoned)
    listener = Listener()
    result = train(make_config(), corpus, tmp_path, listener)
    assert (result.outcome, result.last_step, result.final) == ("diverged", 6, None)
    assert str(value) in result.reason
    assert result.checkpoint.step == 4
    marked = telemetry_path(tmp_path, 1).read_text().splitlines()[-1]
    assert '"loss":"nan"' in marked or '"loss":"+inf"' in marked
    assert len(listener.rows) == 6


def test_gradient_that_is_not_finite_is_not_applied(make_config, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda _: torch.tensor(float("inf")))
    result = train(make_config(), corpus, tmp_path)
    assert (result.outcome, result.last_step) == ("diverged", 1)
    assert "gradient norm" in result.reason
    assert result.checkpoint is None


SHAPED = [
    {"name": "warmup", "lr": "linear_up"},
    {"name": "stable", "lr": "constant"},
    {"name": "decay", "lr": "cosine_down", "final": 0.2},
]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"optimizer__betas": (0.8, 0.95)}, "optimizer.betas"),
        ({"optimizer__lr": 0.02}, "optimizer.lr is 0.01 in the checkpoint, 0.02"),
        ({"phase_fractions": {"warmup": 0.5, "stable": 0.25, "decay": 0.25}}, "phase_fractions"),
        ({"steps": 14}, "steps is 12"),
        (
            {"phases": SHAPED},
            "phases.2.lr is 'linear_down' in the checkpoint, 'cosine_down' in the",
        ),
        ({"phases": SHAPED}, "phases.2.final is 0.1 in the checkpoint, 0.2 in the configuration"),
    ],
)
def test_resume_under_another_configuration_is_refused(
    make_config, corpus, tmp_path, change, shown
):
    """A15 F3: neither the old value nor the new one is taken in silence."""
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die))
    with pytest.raises(ConflictError, match=shown):
        train(make_config(**change), corpus, tmp_path)


def test_resume_under_another_seed_is_refused(make_config, corpus, tmp_path):
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die))
    with pytest.raises(ConflictError, match="seed is '7' in the checkpoint, '8'"):
        train(make_config(), corpus, tmp_path, seed=8)


def test_resume_with_another_checkpoint_interval_goes_on(make_config, corpus, tmp_path):
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die))
    assert train(make_config(checkpoint__every=3), corpus, tmp_path).outcome == "completed"


def test_resume_with_recompute_ends_equal_to_the_last_bit(make_config, corpus, tmp_path):
    """The way out when a smaller device has to go on with a run."""
    whole = train(make_config(), corpus, tmp_path / "whole")
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path / "cut", Listener(6, die))
    resumed = train(make_config(recompute="full"), corpus, tmp_path / "cut")
    assert (resumed.outcome, resumed.from_step) == ("completed", 4)
    assert resumed.final == whole.final


def test_two_processes_do_not_train_in_one_folder(make_config, corpus, tmp_path):
    with exclusive(tmp_path), pytest.raises(ConflictError, match="another process"):
        train(make_config(), corpus, tmp_path)


def test_vocabulary_of_another_size_is_refused(make_config, corpus, tmp_path):
    with pytest.raises(ConflictError, match="vocab_size 301"):
        train(make_config(model__vocab_size=301), corpus, tmp_path)


def test_recorder_that_cannot_write_at_the_end_is_a_warning(make_config, corpus, tmp_path):
    class Away(Listener):
        def close(self):
            raise StoreUnavailableError("the store is away")

    other = Listener()
    result = train(make_config(), corpus, tmp_path, Away(), other)
    assert result.outcome == "completed"
    assert result.warnings == ("the store is away",)
    assert other.closed == 1


def test_weights_of_a_checkpoint_score_as_the_run_did(make_config, corpus, tmp_path):
    config = make_config()
    result = train(config, corpus, tmp_path)
    model = load_weights(config, result.checkpoint.path, result.checkpoint.sha256)
    assert evaluate(model, validation_windows(corpus, config)) == result.final


def test_bf16_run_completes_and_resumes(make_config, corpus, tmp_path):
    config = make_config(precision="bf16")
    whole = train(config, corpus, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "cut", Listener(6, die))
    resumed = train(config, corpus, tmp_path / "cut")
    assert_equal(state_of(whole)["state_dict"], state_of(resumed)["state_dict"])


def test_nothing_is_printed(make_config, corpus, tmp_path, capfd):
    train(make_config(), corpus, tmp_path)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_folder_of_a_run_is_all_that_is_written(make_config, corpus, tmp_path, monkeypatch):
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    train(make_config(), corpus, tmp_path / "run")
    assert list(empty.iterdir()) == []
    assert sorted(p.name for p in Path(tmp_path / "run").iterdir()) == [
        "checkpoints",
        "evaluations-attempt-0001.jsonl",
        "lock",
        "telemetry-attempt-0001.jsonl",
    ]


def test_sentinel_reports_what_it_saw(make_config, corpus, tmp_path):
    result = train(
        make_config(), corpus, tmp_path, divergence=DivergenceRule(loss_above=0.1, patience=5)
    )
    [finding] = [f for f in result.findings if f.signature == "divergence"]
    assert (finding.began_step, finding.detected_step) == (1, 5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_run_on_a_gpu_completes_and_resumes(make_config, corpus, tmp_path):
    with pytest.raises(Killed):
        train(make_config(), corpus, tmp_path, Listener(6, die), accelerator="auto")
    result = train(make_config(), corpus, tmp_path, accelerator="auto")
    assert (result.outcome, result.from_step) == ("completed", 4)
    assert result.final["bpb_macro"] > 0
