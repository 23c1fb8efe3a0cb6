"""The optimizer of a run, and what must hold of one that was restored."""

from collections.abc import Iterable

import torch
from torch import nn

from workbench.moe.model import part_of
from workbench.training.config import FreezablePart, OptimizerConfig
from workbench.training.muon import Muon

_WITHOUT_DECAY = ("embeddings", "norm")
_HIDDEN = ("attention", "experts")
_MATRIX = 2
"""Dimensions of one."""


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Return the run's optimizer, without decay on embeddings, norms and vectors.

    ``adamw`` moves everything by AdamW. ``muon`` moves the matrices of attention and of the experts
    by Muon, each expert's by itself, and router, embeddings, head, norms and vectors by AdamW.

    A parameter whose gradient is None in a step is left alone: neither moved nor decayed, and its
    own step count, which corrects the moments' bias, does not advance.
    """
    matrices: list[nn.Parameter] = []
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        part = part_of(name)
        exempt = part in _WITHOUT_DECAY or parameter.dim() < _MATRIX
        hidden = config.name == "muon" and part in _HIDDEN and not exempt
        (matrices if hidden else plain if exempt else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    if config.name == "muon":
        return Muon(
            matrices,
            groups,
            lr=config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            betas=config.betas,
            eps=config.eps,
        )
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )


def num_updates(optimizer: torch.optim.Optimizer) -> int:
    """Return the largest step count of any parameter: how often the optimizer has stepped."""
    return max((int(state["step"]) for state in optimizer.state.values()), default=0)


def restored_faults(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, updates: int
) -> list[str]:
    """Return what a restored optimizer has that the run does not: empty when all is well.

    Args:
        optimizer: after its state was loaded, which also replaces its hyper-parameters.
        config: what the run asks for.
        updates: the number of updates when the state was saved.
    """
    faults = []
    if num_updates(optimizer) != updates:
        faults.append(f"the step count is {num_updates(optimizer)}, saved was {updates}")
    for group in optimizer.param_groups:
        wanted: dict[str, object] = {
            "weight_decay": config.weight_decay if group["weight_decay"] else 0.0
        }
        if group.get("rule") == "muon":
            wanted["momentum"] = config.momentum
        else:
            wanted |= {"betas": config.betas, "eps": config.eps}
        faults += [
            f"{key} is {group[key]}, the configuration says {value}"
            for key, value in wanted.items()
            if _plain(group[key]) != _plain(value)
        ]
    return faults


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def freeze(model: nn.Module, frozen: Iterable[FreezablePart]) -> None:
    """Let gradients flow to all parameters but those of the frozen parts."""
    parts = set(frozen)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("all" not in parts and part_of(name) not in parts)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
