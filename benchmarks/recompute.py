"""Peak memory and time of a training pass under each recompute policy, against keeping everything.

python benchmarks/recompute.py [--json] [--smoke]
"""

import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from measure import Goal, arguments, report
from torch.profiler import ProfilerActivity, profile

from workbench.moe.config import ModelConfig, RecomputePolicy
from workbench.moe.loss import summed_nats
from workbench.moe.model import MoEDecoder, initialise
from workbench.moe.native.build import NotBuilt
from workbench.moe.native.library import opened

TOKENS = 4096
SIZES = {
    "S": {"d_model": 128, "num_layers": 4, "d_expert": 256, "vocab_size": 4096},
    "M": {"d_model": 256, "num_layers": 6, "d_expert": 512, "vocab_size": 4096},
}
SMOKE = {"d_model": 32, "num_layers": 2, "d_expert": 32, "vocab_size": 300}
COMPILED = not isinstance(opened(), NotBuilt)
"""Whether this machine has the kernels that a run would take."""
MOST_TIME: Mapping[str, float] = {
    "full": 1.4,
    "qkv": 1.2,
    "qkv_softmax": 1.25,
    "selective": 1.3,
}
"""Of the time without recompute; a forward pass is about a third of a training pass."""


@dataclass(frozen=True)
class Cost:
    """Of one forward and backward pass."""

    peak_bytes: int
    """Largest sum of live allocations above those before the pass."""
    seconds: float
    """Median."""


def decoder(size: Mapping[str, int], seq_len: int) -> MoEDecoder:
    config = ModelConfig.model_validate(
        {"num_heads": 4, "num_kv_heads": 4, "num_experts": 8, "top_k": 2, "max_seq_len": seq_len}
        | size
    )
    model = MoEDecoder(config)
    initialise(model, torch.Generator().manual_seed(1))
    model.set_compiled(COMPILED)
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def train_pass(model: MoEDecoder, tokens: torch.Tensor) -> None:
    with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
        hidden = model.hidden(tokens[:, :-1]).hidden_BTD.flatten(0, 1)
        targets = tokens[:, 1:].flatten()
        loss = summed_nats(hidden, model.output_embedding, targets, compiled=COMPILED)
    loss.backward()
    if tokens.is_cuda:
        torch.cuda.synchronize()


def peak_bytes(model: MoEDecoder, tokens: torch.Tensor) -> int:
    """Return the largest sum of live allocations of a pass that makes its gradients anew."""
    model.zero_grad(set_to_none=True)
    gc.collect()
    if tokens.is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        train_pass(model, tokens)
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        train_pass(model, tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    live = [
        (event["ts"], event["args"]["Total Allocated"], event["args"]["Bytes"])
        for event in events
        if event.get("name") == "[memory]"
    ]
    _, total, first = min(live)
    return max(allocated for _, allocated, _ in live) - (total - first)


def costs(model: MoEDecoder, tokens: torch.Tensor, runs: int) -> dict[RecomputePolicy, Cost]:
    """Return the cost of every policy, timed in turn."""
    policies: tuple[RecomputePolicy, ...] = get_args(RecomputePolicy)
    peaks, seconds = {}, {policy: [] for policy in policies}
    for policy in policies:
        model.set_recompute(policy)
        train_pass(model, tokens)
        peaks[policy] = peak_bytes(model, tokens)
    for _ in range(runs):
        for policy in policies:
            model.set_recompute(policy)
            model.zero_grad(set_to_none=True)
            began = time.perf_counter()
            train_pass(model, tokens)
            seconds[policy].append(time.perf_counter() - began)
    return {
        policy: Cost(peak_bytes=peaks[policy], seconds=statistics.median(seconds[policy]))
        for policy in policies
    }


def goals(size: str, found: Mapping[RecomputePolicy, Cost], runs: int) -> list[Goal]:
    """Return memory and time of each policy as ratios to ``none``."""
    none = found["none"]
    peer = f"keeping everything: {none.peak_bytes / 1e6:.1f} MB, {none.seconds * 1e3:.1f} ms"
    result = []
    for policy, most in MOST_TIME.items():
        memory = found[policy].peak_bytes / none.peak_bytes
        spent = found[policy].seconds / none.seconds
        for what, value, target in (("peak memory", memory, 1.0), ("time", spent, most)):
            result.append(
                Goal(
                    goal=f"{what} of a training pass, {size}, recompute {policy}",
                    value=round(value, 3),
                    target=target,
                    unit="ratio, smaller is better",
                    peer=peer,
                    met=value <= target,
                    runs=runs,
                )
            )
    return result


def main() -> None:
    runs, as_json = arguments()
    is_smoke = "--smoke" in sys.argv
    seq_len = 32 if is_smoke else 512
    for size, shape in ({"smoke": SMOKE} if is_smoke else SIZES).items():
        model = decoder(shape, seq_len)
        rows = 4 if is_smoke else TOKENS // seq_len
        generator = torch.Generator().manual_seed(1)
        tokens = torch.randint(shape["vocab_size"], (rows, seq_len + 1), generator=generator)
        found = costs(model, tokens.to(model.embedding.device), runs)
        report(goals(size, found, runs), as_json=as_json)


if __name__ == "__main__":
    main()
