"""The optimizer of a run, and what must hold of one that was restored."""

from collections.abc import Iterable

import torch
from torch import nn

from workbench.moe.model import part_of
from workbench.training.config import FreezablePart, OptimizerConfig

_WITHOUT_DECAY = ("embeddings", "norm")


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the decoder's parameters, without decay on embeddings, norms and vectors.

    A parameter whose gradient is None in a step is left alone: neither moved nor decayed, and its
    own step count, which corrects the moments' bias, does not advance.
    """
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        exempt = part_of(name) in _WITHOUT_DECAY or parameter.dim() < 2
        (plain if exempt else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
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
        wanted = {
            "betas": config.betas,
            "eps": config.eps,
            "weight_decay": config.weight_decay if group["weight_decay"] else 0.0,
        }
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
