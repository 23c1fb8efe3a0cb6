"""Bits per byte of held-out text: the metric of record.

Shape suffixes: B windows, T positions, D model width.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.data.corpus import Corpus
from workbench.data.windows import Windows, evaluation_windows
from workbench.errors import IntegrityError
from workbench.moe.loss import token_nats
from workbench.moe.model import MoEDecoder
from workbench.training.checkpoints import read_checkpoint
from workbench.training.config import RunConfig

MODEL_PREFIX = "model."
"""Of the decoder's weights among those of the Lightning module."""
_TOKENS_A_PASS = 8192


def validation_windows(corpus: Corpus, config: RunConfig) -> dict[str, Windows]:
    """Return the validation text that a run is measured on, by domain."""
    return {
        domain: evaluation_windows(
            corpus.tokens("validation", domain),
            corpus.token_bytes,
            seq_len=config.batch.seq_len,
            max_bytes=config.evaluation.bytes_per_domain,
        )
        for domain in corpus.domains
    }


def evaluate_tokens(
    model: MoEDecoder,
    tokens_by_domain: Mapping[str, NDArray[np.integer]],
    token_bytes: NDArray[np.int64],
    *,
    seq_len: int,
    max_bytes: int | None,
) -> dict[str, float]:
    """Return bits per byte of token sequences: ``bpb_<domain>`` and ``bpb_macro``, their mean."""
    windows = {
        domain: evaluation_windows(tokens, token_bytes, seq_len=seq_len, max_bytes=max_bytes)
        for domain, tokens in tokens_by_domain.items()
    }
    return evaluate(model, windows)


def evaluate(model: MoEDecoder, windows: Mapping[str, Windows]) -> dict[str, float]:
    """Return bits per byte of windows: ``bpb_<domain>`` and ``bpb_macro``, their unweighted mean.

    Always in fp32, whatever precision the training runs in. Bits per byte = summed cross-entropy in
    nats / ln 2 / UTF-8 bytes of the scored tokens. A loss that is not finite makes the value NaN.
    """
    was_training = model.training
    model.eval()
    try:
        values = {f"bpb_{domain}": _bits_per_byte(model, part) for domain, part in windows.items()}
    finally:
        model.train(was_training)
    return {"bpb_macro": math.fsum(values.values()) / len(values), **values}


def load_weights(config: RunConfig, path: Path, sha256: str) -> MoEDecoder:
    """Return the decoder with a checkpoint's weights, on the CPU, ready to evaluate.

    Raises:
        NotFoundError: the checkpoint does not exist.
        IntegrityError: its bytes are not those of the digest, or its weights are not this model's.
    """
    state = read_checkpoint(path, sha256)["state_dict"]
    weights = {name.removeprefix(MODEL_PREFIX): tensor for name, tensor in state.items()}
    model = MoEDecoder(config.model)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise IntegrityError(
            f"{path.name} holds the weights of another model: {error}",
            remedy="use the configuration that the run was started with",
        ) from error
    return model.eval()


@torch.no_grad()
def _bits_per_byte(model: MoEDecoder, windows: Windows) -> float:
    device = next(model.parameters()).device
    rows = max(1, _TOKENS_A_PASS // max(1, windows.inputs.shape[1]))
    nats: list[float] = []
    for begin in range(0, len(windows.inputs), rows):
        part = slice(begin, begin + rows)
        mask_BT = torch.from_numpy(windows.mask[part]).to(device)
        inputs_BT = torch.from_numpy(windows.inputs[part]).to(device, torch.int64)
        targets_BT = torch.from_numpy(windows.targets[part]).to(device, torch.int64)
        hidden_BTD = model.hidden(inputs_BT, mask_BT).hidden_BTD
        losses = token_nats(hidden_BTD[mask_BT], model.output_embedding, targets_BT[mask_BT])
        # Summed in double: a million fp32 terms would lose the digits that a comparison needs.
        nats.append(float(losses.double().sum()))
    total = math.fsum(nats) if all(map(math.isfinite, nats)) else math.nan
    return total / math.log(2) / windows.total_bytes
