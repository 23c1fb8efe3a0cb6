"""Slow, obvious versions of what the decoder computes: one sequence, one token, one head a time."""

import math

import torch
from torch import Tensor

from workbench.moe.model import MoEDecoder


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def rotate(vector: Tensor, position: int, theta: float) -> Tensor:
    half = len(vector) // 2
    out = vector.clone()
    for pair in range(half):
        angle = position * theta ** (-2 * pair / len(vector))
        a, b = vector[pair], vector[pair + half]
        out[pair] = a * math.cos(angle) - b * math.sin(angle)
        out[pair + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def grouped_attention(model: MoEDecoder, layer: int, x_TD: Tensor) -> Tensor:
    config, module = model.config, model.layers[layer].attention
    width = config.d_model // config.num_heads
    heads = []
    for head in range(config.num_heads):
        shared = head // (config.num_heads // config.num_kv_heads)
        q = x_TD @ module.query[head * width : (head + 1) * width].T
        k = x_TD @ module.key[shared * width : (shared + 1) * width].T
        v = x_TD @ module.value[shared * width : (shared + 1) * width].T
        if config.qk_norm:
            q = rms_norm(q, module.query_norm.weight)
            k = rms_norm(k, module.key_norm.weight)
        q = torch.stack([rotate(row, t, config.rope_theta) for t, row in enumerate(q)])
        k = torch.stack([rotate(row, t, config.rope_theta) for t, row in enumerate(k)])
        mixed = []
        for t in range(len(x_TD)):
            score = torch.softmax(k[: t + 1] @ q[t] / math.sqrt(width), dim=0)
            mixed.append(score @ v[: t + 1])
        heads.append(torch.stack(mixed))
    return torch.cat(heads, dim=1) @ module.output.T


def latent_attention(model: MoEDecoder, layer: int, x_TD: Tensor) -> Tensor:
    """Each head's keys and values of each position from the compressed vector, one by one."""
    config, module = model.config, model.layers[layer].attention
    nope, rope, value = (
        config.attention.qk_nope_head_dim,
        config.attention.qk_rope_head_dim,
        config.attention.v_head_dim,
    )
    rank = config.attention.kv_lora_rank
    latent, shared = [], []
    for t, x in enumerate(x_TD):
        down = module.key_value_down @ x
        latent.append(rms_norm(down[:rank], module.key_value_norm.weight))
        shared.append(rotate(down[rank:], t, config.rope_theta))
    rows = []
    for t, x in enumerate(x_TD):
        if module.query_down is not None:
            x = rms_norm(module.query_down @ x, module.query_norm.weight)
        heads = []
        for head in range(config.num_heads):
            q = module.query[head * (nope + rope) : (head + 1) * (nope + rope)] @ x
            rotated = rotate(q[nope:], t, config.rope_theta)
            key_up = module.key_up[head * nope : (head + 1) * nope]
            value_up = module.value_up[head * value : (head + 1) * value]
            scores = torch.stack(
                [
                    (q[:nope] @ (key_up @ latent[s]) + rotated @ shared[s]) / math.sqrt(nope + rope)
                    for s in range(t + 1)
                ]
            )
            weights = torch.softmax(scores, dim=0)
            heads.append(sum(weights[s] * (value_up @ latent[s]) for s in range(t + 1)))
        rows.append(module.output @ torch.cat(heads))
    return torch.stack(rows)


attentions = {"gqa": grouped_attention, "mla": latent_attention}


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    hidden = gate @ x
    return down @ (hidden / (1 + torch.exp(-hidden)) * (up @ x))


def experts(model: MoEDecoder, layer: int, x_TD: Tensor) -> Tensor:
    config, module = model.config, model.layers[layer]
    rows = []
    for x in x_TD:
        probs = torch.softmax(module.router.weight @ x, dim=0)
        plain = probs.tolist()
        best = sorted(range(config.num_experts), key=lambda e: (-plain[e], e))
        chosen = best[: config.top_k]
        total = sum(probs[e] for e in chosen) if config.top_k > 1 else 1.0
        stack = module.experts
        row = sum(
            probs[e] / total * swiglu(x, stack.gate[e], stack.up[e], stack.down[e]) for e in chosen
        )
        if module.shared_experts is not None:
            shared = module.shared_experts
            for index in range(config.num_shared_experts):
                part = slice(index * config.d_expert, (index + 1) * config.d_expert)
                row = row + swiglu(x, shared.gate[part], shared.up[part], shared.down[:, part])
        rows.append(row)
    return torch.stack(rows)


def logits(model: MoEDecoder, tokens_T: Tensor) -> Tensor:
    attention = attentions[model.config.attention.kind]
    x_TD = model.embedding[tokens_T]
    for index, layer in enumerate(model.layers):
        attention_norm, experts_norm = layer.attention_norm.weight, layer.experts_norm.weight
        if model.config.norm_placement == "reordered":
            x_TD = x_TD + rms_norm(attention(model, index, x_TD), attention_norm)
            x_TD = x_TD + rms_norm(experts(model, index, x_TD), experts_norm)
        else:
            x_TD = x_TD + attention(model, index, rms_norm(x_TD, attention_norm))
            x_TD = x_TD + experts(model, index, rms_norm(x_TD, experts_norm))
    return rms_norm(x_TD, model.final_norm.weight) @ model.output_embedding.T
