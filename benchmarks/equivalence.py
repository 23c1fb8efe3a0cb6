"""Whether options and kernels change what a model learns: losses over a run against seed noise.

python benchmarks/equivalence.py [--json] [--smoke]

Each variant trains on the installed Python library's own source text, byte by byte, with the same
seeds and batches as the plain model: fp32, torch's own operations, no option. A paired difference
of the last losses is compared with the standard deviation over the plain model's seeds.
"""

import statistics
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Goal, report
from torch import Tensor

from workbench.moe.model import MoEDecoder, initialise
from workbench.proxies.recipe_file import load_recipe
from workbench.training.config import RunConfig
from workbench.training.module import PretrainModule, RunIdentity

RECIPE = (
    Path(__file__).parents[1] / "workbench/scaffold/templates/proxies/mixture-lambda-phases.yaml"
)
EQUAL: Mapping[str, Mapping[str, Any]] = {
    "compiled kernels": {"precision": "bf16"},
    "bf16, torch's own operations": {"precision": "bf16", "kernels": "portable"},
    "global batch of 4 micro-batches": {
        "batch": {"micro_batches": 4},
        "balance": {"scope": "global_batch"},
    },
    "recompute selective, bf16": {"precision": "bf16", "recompute": "selective"},
    "block-scaled fp8 experts": {"precision": "bf16", "expert_precision": "fp8_block"},
}
"""What is to learn the same."""
OTHER: Mapping[str, Mapping[str, Any]] = {
    "sigmoid scores": {"model": {"routing": {"scores": "sigmoid"}}},
    "balancing biases, no loss": {
        "model": {"routing": {"bias": True}},
        "balance": {"weight": 0.0, "bias_rate": 0.001},
    },
    "groups": {"model": {"routing": {"groups": 4, "top_groups": 2}}},
    "capacity 1.25": {"model": {"routing": {"capacity_factor": 1.25}}},
    "Gumbel straight-through": {"model": {"routing": {"kind": "gumbel"}}},
    "routing held 10 steps": {"model": {"routing": {"refresh_every": 10}}},
    "one shared expert": {"model": {"num_shared_experts": 1, "top_k": 1}},
    "reordered norms": {"model": {"norm_placement": "reordered"}},
    "no QK-norm": {"model": {"qk_norm": False}},
    "latent attention": {
        "model": {
            "qk_norm": False,
            "attention": {
                "kind": "mla",
                "kv_lora_rank": 32,
                "qk_nope_head_dim": 16,
                "qk_rope_head_dim": 16,
                "v_head_dim": 16,
            },
        }
    },
    "Muon": {"optimizer": {"name": "muon"}},
    "Muon with QK-Clip": {
        "model": {"qk_norm": False},
        "optimizer": {"name": "muon", "qk_clip": 30.0},
    },
    "adaptive clipping": {"optimizer": {"clip": "adaptive"}},
    "no balance loss": {"balance": {"weight": 0.0}},
    "stability penalty": {
        "balance": {"stability_weight": 0.01, "stability_definition": "kl(P||ema(P))@1"}
    },
}
"""What may learn otherwise: an ablation, with no target."""
PLAIN: Mapping[str, Any] = {
    "precision": "fp32",
    "model": {
        "vocab_size": 258,
        "d_model": 64,
        "num_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 4,
        "num_experts": 8,
        "top_k": 2,
        "d_expert": 64,
        "max_seq_len": 128,
    },
    "batch": {"sequences": 8, "seq_len": 128, "micro_batches": 1},
}
NO_TARGET = 1000.0
LAST = 50
"""Steps whose losses are averaged."""


def merged(plain: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(plain)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value
    return result


def config_of(changes: Mapping[str, Any], steps: int) -> RunConfig:
    base = load_recipe(RECIPE.read_text("utf-8"), RECIPE.name).at_scale("s1")
    plain = merged(base.model_dump(mode="json"), PLAIN) | {"steps": steps}
    return RunConfig.model_validate(merged(plain, changes))


def library_bytes() -> Tensor:
    """Return some megabytes of the standard library's source."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = b"\0".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return torch.from_numpy(np.frombuffer(text, dtype=np.uint8).astype(np.int64))


def batches(text: Tensor, config: RunConfig, seed: int) -> Iterator[Mapping[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    length = config.batch.seq_len + 1
    for _ in range(config.steps):
        starts = torch.randint(len(text) - length, (config.batch.sequences,), generator=generator)
        yield {"tokens": torch.stack([text[start : start + length] for start in starts])}


def last_loss(config: RunConfig, text: Tensor, seed: int) -> float:
    """Return the mean training loss of the last steps, nats a byte."""
    model = MoEDecoder(config.model)
    initialise(model, torch.Generator().manual_seed(seed))
    module = PretrainModule(model, RunIdentity(config=config, seed=seed, corpus=""))
    optimizer = module.configure_optimizers()
    module.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign]
    module._optimizer = lambda **_: optimizer  # type: ignore[method-assign]
    bf16 = config.precision == "bf16"
    losses = []
    for number, batch in enumerate(batches(text, config, seed)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            module.training_step(batch, number)
        if module.measures is not None:
            losses.append(module.measures.loss)
    return statistics.fmean(losses[-LAST:])


def goals(seeds: Sequence[int], steps: int) -> list[Goal]:
    text = library_bytes()
    plain = [last_loss(config_of({}, steps), text, seed) for seed in seeds]
    noise = statistics.stdev(plain)
    told = f"plain fp32 model: {statistics.fmean(plain):.4f} nats, SD of seeds {noise:.4f}"
    print(told, file=sys.stderr)
    found = []
    for name, changes in {**EQUAL, **OTHER}.items():
        config = config_of(changes, steps)
        differences = [
            last_loss(config, text, seed) - before
            for seed, before in zip(seeds, plain, strict=True)
        ]
        mean = statistics.fmean(differences)
        target = 2.0 if name in EQUAL else NO_TARGET
        found.append(
            Goal(
                goal=f"loss after {steps} steps, {name} ({mean:+.4f} nats)",
                value=round(1 + abs(mean) / noise, 3),
                target=target,
                unit="1 + |difference| / SD over seeds, paired by seed; 1 is equal",
                peer=told,
                met=1 + abs(mean) / noise <= target,
                runs=len(seeds),
            )
        )
        print(f"{name}: {mean:+.4f} ({abs(mean) / noise:.2f} SD)", file=sys.stderr)
    return found


def main() -> None:
    small = "--smoke" in sys.argv
    seeds, steps = ((1, 2), 60) if small else ((1, 2, 3), 500)
    report(goals(seeds, steps), as_json="--json" in sys.argv)


if __name__ == "__main__":
    main()
