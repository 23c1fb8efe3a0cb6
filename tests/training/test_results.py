"""What a run's result says of its speed."""

import dataclasses

import pytest

from tests.training.test_fit import train


def test_flops_of_a_run_are_those_of_its_products(make_config, corpus, tmp_path):
    """Counted product by product: 2 FLOPs a multiply-add, backward twice forward."""
    config = make_config(steps=2, evaluation__every=2, checkpoint__every=2)
    result = train(config, corpus, tmp_path)
    width, heads, kv, length = 16, 2, 1, 16
    forward = 0
    for _ in range(config.model.num_layers):
        forward += 2 * width * width * 2  # query, output
        forward += 2 * width * (width // heads * kv) * 2  # key, value
        forward += 2 * width * 4  # router of 4 experts
        forward += 2 * 3 * width * 16 * 2  # the 2 experts of a token
        forward += 2 * 2 * width * (length + 1) / 2  # scores and mixing over the causal half
    forward += 2 * width * 300  # head
    assert result.flops_per_token == 3 * forward
    timed = dataclasses.replace(result, device_seconds=4.0)
    assert result.tokens == 2 * 4 * 16
    assert timed.flops_per_second == 128 * 3 * forward / 4
    assert timed.utilization(128 * 3 * forward) == pytest.approx(0.25)
    assert dataclasses.replace(result, device_seconds=0.0).flops_per_second == 0.0
