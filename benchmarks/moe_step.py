"""Time of a training step against other decoders of the same shape, and its memory.

python benchmarks/moe_step.py [--json] [--smoke] [--cell SIZE,EXPERTS,THREADS]

A step is forward, backward and AdamW on 4,096 random tokens, new ones each time: routing changes
from step to step and is checked to do so. Each cell is a process of its own, because threads are
part of what a compiler bakes in; within it all decoders take their steps in turn.
"""

import gc
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from measure import Goal, at_least, report
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from workbench.moe import balance
from workbench.moe.config import ModelConfig
from workbench.moe.loss import summed_nats
from workbench.moe.model import MoEDecoder, initialise
from workbench.moe.native.library import opened

VOCABULARY, HEADS, TOP_K = 4096, 4, 2
SIZES = {"S": (128, 4, 256), "M": (256, 6, 512), "smoke": (32, 2, 64)}
"""Model width, layers, expert width."""
CELLS = [(size, e, threads) for threads in (1, 2) for size in ("S", "M") for e in (8, 16)]
RUNS, ROWS, LENGTH = 7, 8, 512


@dataclass(frozen=True)
class Cell:
    size: str
    experts: int
    threads: int

    @property
    def tokens(self) -> tuple[int, int]:
        return (2, 32) if self.size == "smoke" else (ROWS, LENGTH)

    def __str__(self) -> str:
        return f"{self.size} of {self.experts} experts, {self.threads} threads"


Step = Callable[[], None]


class Routing:
    """What the router of our first layer did, step by step."""

    def __init__(self) -> None:
        self.shares: list[torch.Tensor] = []

    def check(self) -> None:
        """Refuse figures of a router that does the same each step, or uses few experts."""
        counts = torch.stack(self.shares)
        if len(counts) > 1 and bool((counts == counts[0]).all()):
            raise RuntimeError("the routing is constant: the figures mean nothing")
        if float(counts.max()) > 0.5 * TOP_K:
            raise RuntimeError(f"the routing has collapsed: a share of {float(counts.max()):.2f}")


def own(cell: Cell, seen: Routing | None, *, experts: int, inner: int, compiled: bool) -> Step:
    """Return a step of our decoder; one expert is the dense model of the same active width."""
    width, layers, _ = SIZES[cell.size]
    rows, length = cell.tokens
    config = ModelConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        num_layers=layers,
        num_heads=HEADS,
        num_kv_heads=HEADS,
        num_experts=experts,
        top_k=min(TOP_K, experts),
        d_expert=inner,
        max_seq_len=length,
        qk_norm=False,
    )
    model = MoEDecoder(config)
    initialise(model, torch.Generator().manual_seed(1))
    model.set_compiled(compiled)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        tokens = torch.randint(VOCABULARY, (rows, length + 1))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model.hidden(tokens[:, :-1])
            nats = summed_nats(
                out.hidden_BTD.flatten(0, 1),
                model.output_embedding,
                tokens[:, 1:].flatten(),
                compiled=compiled,
            )
            loss = nats / (rows * length) + 0.01 * balance.switch_loss(out.routing)
        loss.backward()
        optimizer.step()
        if seen is not None:
            seen.shares.append(balance.assignment_shares(out.routing[0]))

    return step


def peer(cell: Cell, model: torch.nn.Module, *, bf16: bool) -> Step:
    """Return a step of a model of the transformers library, its labels shifted by itself."""
    rows, length = cell.tokens
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        tokens = torch.randint(VOCABULARY, (rows, length))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()

    return step


def mixtral(cell: Cell, implementation: str) -> torch.nn.Module:
    width, layers, inner = SIZES[cell.size]
    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=cell.tokens[1],
        num_experts_per_tok=TOP_K,
        num_local_experts=cell.experts,
        output_router_logits=True,
        sliding_window=None,
        use_cache=False,
        tie_word_embeddings=True,
    )
    model = MixtralForCausalLM(config)
    model.set_experts_implementation(implementation)
    return model


def llama(cell: Cell) -> torch.nn.Module:
    width, layers, inner = SIZES[cell.size]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=TOP_K * inner,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=cell.tokens[1],
        use_cache=False,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def steps_of(cell: Cell, seen: Routing) -> dict[str, Step]:
    """Return every decoder's step by its name; those of Mixtral begin with its name."""
    inner = SIZES[cell.size][2]
    steps = {
        "portable": own(cell, None, experts=cell.experts, inner=inner, compiled=False),
        "plain dense Llama, eager bf16": peer(cell, llama(cell), bf16=True),
    }
    if not isinstance(opened(), Exception):
        steps["ours"] = own(cell, seen, experts=cell.experts, inner=inner, compiled=True)
        steps["our dense"] = own(cell, None, experts=1, inner=TOP_K * inner, compiled=True)
    for implementation in ("eager", "grouped_mm"):
        for bf16 in (True, False):
            kind = f"Mixtral {implementation} {'bf16' if bf16 else 'fp32'}"
            steps[kind] = peer(cell, mixtral(cell, implementation), bf16=bf16)
    if cell.size != "smoke":
        for bf16 in (True, False):
            kind = f"Mixtral grouped_mm compiled {'bf16' if bf16 else 'fp32'}"
            compiled = torch.compile(mixtral(cell, "grouped_mm"))
            steps[kind] = peer(cell, compiled, bf16=bf16)
    return steps


def medians(steps: Mapping[str, Step], runs: int) -> dict[str, float]:
    """Return each step's median seconds; two warm-ups each, then all in turn."""
    for step in steps.values():
        step()
        step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(runs):
        for name, step in steps.items():
            gc.collect()
            began = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def goals(cell: Cell, runs: int) -> list[Goal]:
    seen = Routing()
    took = medians(steps_of(cell, seen), runs)
    rivals = {name: s for name, s in took.items() if name.startswith("Mixtral")}
    best = min(rivals, key=rivals.__getitem__)
    told = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in took.items())
    print(f"{cell}: {told}", file=sys.stderr)

    def ratio(goal: str, ours: str, other: str, target: float) -> Goal:
        named = f"{other} ({took[other] * 1e3:.0f} ms; {ours} {took[ours] * 1e3:.0f} ms)"
        speed = f"{goal}, {cell}"
        return at_least(
            speed, 1 / took[ours], 1 / took[other], target=target, peer_name=named, runs=runs
        )

    found = [ratio("step without a compiler against HF's best", "portable", best, 1.0)]
    if "ours" in took:
        seen.check()
        least = 1.8 if (cell.size, cell.experts) == ("M", 8) else 1.4
        found += [
            ratio("step against HF Mixtral's best", "ours", best, least),
            ratio("step against HF Mixtral, eager", "ours", "Mixtral eager bf16", 3.5),
            ratio("step against our own dense model", "ours", "our dense", 0.65),
            ratio("step against a plain dense model", "ours", "plain dense Llama, eager bf16", 1.2),
        ]
    return found


def main() -> None:
    warnings.filterwarnings("ignore")
    as_json = "--json" in sys.argv
    if "--cell" in sys.argv:
        size, experts, threads = sys.argv[sys.argv.index("--cell") + 1].split(",")
        cell = Cell(size, int(experts), int(threads))
        torch.set_num_threads(cell.threads)
        report(goals(cell, 1 if size == "smoke" else RUNS), as_json=as_json)
        return
    for cell in [("smoke", 4, 1)] if "--smoke" in sys.argv else CELLS:
        named = ",".join(map(str, cell))
        command = [sys.executable, __file__, "--cell", named, *(["--json"] if as_json else [])]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
