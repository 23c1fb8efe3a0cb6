"""Muon for the hidden matrices of the decoder, AdamW for everything else, as one optimizer.

Sources: the iteration and its coefficients, Jordan et al. 2024 (the Muon post); decoupled decay and
the factor 0.2·√max(rows, columns), which gives an update the root mean square that AdamW's has, so
that both share one learning rate and one decay, Liu et al. 2025 (Moonlight), section 2.2.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of X, (XXᵀ)X and (XXᵀ)²X. Chosen for the steepest slope at 0: singular values end between about
0.7 and 1.2 instead of at 1."""
ITERATIONS = 5
_TINY = 1e-7
"""Keeps the orthogonalisation of a zero matrix at zero."""
_MATCHED_RMS = 0.2


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return about U·Vᵀ of each matrix U·S·Vᵀ in the last two dimensions, by Newton-Schulz.

    Matrices are divided by their Frobenius norm first, so that every singular value is at most 1.
    Computed in the data type given; leading dimensions are a batch.
    """
    a, b, c = COEFFICIENTS
    rows, columns = matrix.shape[-2:]
    # The Gram matrix is that of the shorter side.
    x = matrix.mT if rows > columns else matrix
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=_TINY)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x.mT if rows > columns else x
    return result


class Muon(torch.optim.Optimizer):
    """Muon over the groups with ``rule: muon``, fused AdamW over those with ``rule: adamw``.

    One step of Muon, with learning rate η, decay λ and momentum μ:
    M ← μM + G; O = orthogonalised(G + μM) (Nesterov); W ← W - η·λ·W - η·0.2·√max(rows, columns)·O.
    A stacked tensor is a batch of matrices, each orthogonalised by itself. A parameter whose
    gradient is None is left alone, and its step count does not advance.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[dict[str, Any]],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        """Take the parameters.

        Args:
            matrices: for Muon; at least two dimensions, the last two a matrix.
            others: parameter groups for AdamW, each with its ``weight_decay``.
            lr: of all groups.
            momentum: μ of Muon.
            weight_decay: λ of Muon's matrices.
            betas: of AdamW.
            eps: of AdamW.
        """
        muon = {"rule": "muon", "momentum": momentum, "weight_decay": weight_decay}
        plain = {"rule": "adamw", "betas": betas, "eps": eps, "fused": True}
        groups = [{"params": list(matrices), **muon}, *({**plain, **group} for group in others)]
        super().__init__([group for group in groups if group["params"]], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; return what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if not moving:
                continue
            # A trainer may step inside the forward pass's autocast, which would round the products.
            with torch.autocast(moving[0].device.type, enabled=False):
                (self._muon if group["rule"] == "muon" else self._adamw)(moving, group)
        return loss

    def _muon(self, matrices: list[nn.Parameter], group: dict[str, Any]) -> None:
        for matrix in matrices:
            gradient = matrix.grad
            assert gradient is not None  # noqa: S101 -- the caller chose those that have one
            state = self._state(matrix, ("momentum_buffer",))
            state["step"] += 1
            buffer: Tensor = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).add_(gradient)
            update = orthogonalised(gradient.add(buffer, alpha=group["momentum"]))
            length = _MATCHED_RMS * max(matrix.shape[-2:]) ** 0.5
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            matrix.add_(update, alpha=-group["lr"] * length)

    def _adamw(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        states = [self._state(parameter, ("exp_avg", "exp_avg_sq")) for parameter in parameters]
        adamw(
            list(parameters),
            [parameter.grad for parameter in parameters if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )

    def _state(self, parameter: nn.Parameter, names: Iterable[str]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            for name in names:
                state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state
