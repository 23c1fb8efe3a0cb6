"""What the mixtures take, compared with what the stream really draws."""

import pytest

from tests.data.numbered import NumberedSource
from workbench.data.serving.stream import TokenStream
from workbench.errors import InvalidFileError
from workbench.training import mixture_plan
from workbench.training.config import RunConfig, check_simplex
from workbench.training.mixture_plan import planned_mixture, refuse_unavailable
from workbench.training.sampling import run_stream

SOURCE = NumberedSource(big=16_001, small=161)  # 1000 and 10 windows of 16 targets
PHASES = [
    {"name": "first", "lr": "constant"},
    {"name": "second", "lr": "linear_down", "mixture": {"big": 0.9, "small": 0.1}},
]


def config_of(make_config, **more) -> RunConfig:
    return make_config(
        **{
            "steps": 500,
            "mixture": {"big": 0.5, "small": 0.5},
            "phases": PHASES,
            "phase_fractions": {"first": 0.8, "second": 0.2},
            **more,
        }
    )


def drawn_tokens(config: RunConfig, steps: int) -> dict[str, int]:
    stream: TokenStream = run_stream(config, SOURCE, seed=3)
    stream.skip(steps)
    return stream.accounting().tokens


def test_plan_is_what_the_stream_draws_phase_by_phase(make_config):
    config = config_of(make_config)
    first = drawn_tokens(config, 400)
    whole = drawn_tokens(config, 500)
    rows = planned_mixture(config, SOURCE).rows
    assert [(r.phase, r.first_step, r.last_step, r.domain) for r in rows] == [
        ("first", 1, 400, "big"),
        ("first", 1, 400, "small"),
        ("second", 401, 500, "big"),
        ("second", 401, 500, "small"),
    ]
    for row in rows:
        domain = row.domain
        found = first[domain] if row.phase == "first" else whole[domain] - first[domain]
        assert row.tokens == found
        assert (row.max_epochs, row.at_limit) == (None, "")
    assert [row.epochs_so_far for row in rows] == [0.8, 80.0, 1.16, 84.0]


def test_plan_of_sizes_ten_to_a_thousand_at_equal_shares_tells_a_hundred_epochs(make_config):
    """D5: at equal shares the small source is gone through 100 times while the big one is once."""
    config = config_of(
        make_config,
        phases=[{"name": "only", "lr": "constant"}],
        phase_fractions={"only": 1.0},
    )
    big, small = planned_mixture(config, SOURCE).rows
    assert (big.epochs, small.epochs) == (1.0, 100.0)
    assert (big.realised, small.realised) == (0.5, 0.5)
    told = run_stream(config, SOURCE, seed=3)
    told.skip(500)
    assert told.accounting().shares == {"big": 0.5, "small": 0.5}
    assert told.accounting().epochs == {"big": 1.0, "small": 100.0}


def test_run_that_needs_more_is_refused_and_the_largest_share_named_is_accepted(make_config):
    one_phase = {
        "phases": [{"name": "only", "lr": "constant"}],
        "phase_fractions": {"only": 1.0},
        "availability": {"max_epochs": {"small": 4}, "exhausted": "refuse"},
    }
    with pytest.raises(
        InvalidFileError, match=r"small would be gone through 100 times of at most 4 .*: 0.02\)"
    ):
        refuse_unavailable(config_of(make_config, **one_phase), SOURCE)
    feasible = {"mixture": {"big": 0.98, "small": 0.02}}
    refuse_unavailable(config_of(make_config, **one_phase, **feasible), SOURCE)
    above = {"mixture": {"big": 0.979, "small": 0.021}}
    with pytest.raises(InvalidFileError, match="small"):
        refuse_unavailable(config_of(make_config, **one_phase, **above), SOURCE)


def test_repeat_goes_on_and_says_so(make_config):
    config = config_of(make_config, availability={"max_epochs": 4, "exhausted": "repeat"})
    plan = planned_mixture(config, SOURCE)
    assert plan.refusal is None
    assert [row.at_limit for row in plan.rows] == ["", "repeats", "", "repeats"]


@pytest.mark.parametrize("limit", [0.05, 1.0, 7.5, 82])
def test_dropped_domain_is_planned_as_the_stream_drops_it(make_config, limit):
    config = config_of(
        make_config, availability={"max_epochs": {"small": limit}, "exhausted": "drop"}
    )
    plan = planned_mixture(config, SOURCE)
    total = dict.fromkeys(SOURCE.domains, 0)
    for row in plan.rows:
        total[row.domain] += row.tokens
    found = drawn_tokens(config, 500)
    assert total["small"] == found["small"] == max(1, int(limit * 10)) * 16
    assert total == found
    [dropped] = [row for row in plan.rows if row.at_limit.startswith("dropped after")]
    step = int(dropped.at_limit.split()[3].rstrip(","))
    assert drawn_tokens(config, step + 1)["small"] == found["small"]
    assert drawn_tokens(config, max(0, step - 2))["small"] < found["small"]


def test_realised_shares_tell_what_dropping_and_rounding_to_steps_make_of_the_stated(make_config):
    """D5: half and half is stated; the small domain ends at 7.5 epochs, and a phase has no step."""
    phases = [*PHASES, {"name": "third", "lr": "constant", "mixture": {"small": 1.0}}]
    config = config_of(
        make_config,
        phases=phases,
        phase_fractions={"first": 0.8, "second": 0.1996, "third": 0.0004},
        availability={"max_epochs": {"small": 7.5}, "exhausted": "drop"},
        document_weights={"first": 0.99, "last": 0.95},
    )
    plan = planned_mixture(config, SOURCE)
    found = [(r.phase, r.domain, r.stated, r.realised, r.tokens // 16) for r in plan.rows]
    assert found == [
        ("first", "big", 0.5, 1525 / 1600, 1525),
        ("first", "small", 0.5, 75 / 1600, 75),
        ("second", "big", 0.9, 1.0, 400),
        ("second", "small", 0.1, 0.0, 0),
        ("third", "big", 0.0, None, 0),
        ("third", "small", 1.0, None, 0),
    ]
    empty = plan.rows[-1]
    assert (empty.first_step, empty.last_step, empty.at_limit) == (501, 500, "")
    whole = [(r.domain, r.stated, r.realised, r.epochs, r.last_step) for r in plan.total]
    assert whole == [
        ("big", pytest.approx(0.58), 1925 / 2000, 1.925, 500),
        ("small", pytest.approx(0.42), 75 / 2000, 7.5, 500),
    ]
    told = run_stream(config, SOURCE, seed=9)
    told.skip(500)
    assert told.accounting().shares == {row.domain: row.realised for row in plan.total}


def test_long_run_is_planned_within_a_sequence_a_domain_of_its_replay(make_config, monkeypatch):
    config = config_of(
        make_config,
        mixture={"big": 0.77, "small": 0.23},
        availability={"max_epochs": {"small": 7.7}, "exhausted": "drop"},
    )
    replayed = planned_mixture(config, SOURCE)
    monkeypatch.setattr(mixture_plan, "_REPLAYED", 0)
    for one, other in zip(planned_mixture(config, SOURCE).rows, replayed.rows, strict=True):
        assert abs(one.tokens - other.tokens) <= 16
        assert one.realised == pytest.approx(other.realised, abs=1 / 400)


def test_refused_run_tells_what_it_would_draw_until_there_is_nothing_left(make_config):
    config = config_of(make_config, availability={"max_epochs": 0.5, "exhausted": "drop"})
    plan = planned_mixture(config, SOURCE)
    assert plan.refusal is not None
    assert [row.tokens // 16 for row in plan.total] == [500, 5]
    assert [row.realised is None for row in plan.rows] == [False, False, True, True]


def test_run_that_drops_everything_is_refused(make_config):
    config = config_of(make_config, availability={"max_epochs": 0.5, "exhausted": "drop"})
    with pytest.raises(InvalidFileError, match="every domain of the mixture before step 127"):
        refuse_unavailable(config, SOURCE)


def test_availability_of_an_unknown_domain_is_refused(make_config):
    config = config_of(
        make_config, availability={"max_epochs": {"poetry": 1}, "exhausted": "repeat"}
    )
    with pytest.raises(InvalidFileError, match="poetry"):
        planned_mixture(config, SOURCE)


@pytest.mark.parametrize(
    ("shares", "factor"),
    [
        ({"web": 0.85005, "code": 0.12, "math": 0.03}, "1.00005, not 1: multiply by 0.99995"),
        ({"web": 0.63565, "code": 0.24, "math": 0.13}, "1.00565, not 1: multiply by 0.99438"),
        (dict.fromkeys("abcdefg", 0.15), "1.05, not 1: multiply by 0.95238"),
    ],
)
def test_shares_off_one_are_refused_with_a_line_that_is_accepted(shares, factor):
    """The sums of two published stage files; the line as printed is a valid mixture."""
    with pytest.raises(ValueError, match=factor) as caught:
        check_simplex(shares)
    line = str(caught.value).partition("which gives {")[2].rstrip("}")
    written = {
        name: float(share) for name, share in (part.split(": ") for part in line.split(", "))
    }
    assert check_simplex(written) == written
    assert list(written) == list(shares)


@pytest.mark.parametrize(
    "values",
    [
        {"document_weights": {"first": 0.89, "last": 0.99}},
        {"document_weights": {"first": 0.99}},
        {"availability": {"max_epochs": 0, "exhausted": "drop"}},
        {"availability": {"max_epochs": 1}},
        {"availability": {"max_epochs": 1, "exhausted": "stop"}},
        {"batch": {"sequences": 2, "seq_len": 8, "documents": "packed"}},
    ],
)
def test_options_out_of_range_are_refused(make_config, values):
    with pytest.raises(ValueError, match="validation error"):
        make_config(**values)
