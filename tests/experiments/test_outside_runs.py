"""Others' runs are judged as their rule says, in the file's order, and never as registered."""

import pytest

from workbench.analysis.claims import judge
from workbench.errors import InvalidFileError
from workbench.experiments.outside_runs import OutsideVerdict, outside_verdict, read_runs

CONTROL = [3.2801, 3.2790, 3.2812, 3.2795, 3.2804]
BETTER = [3.2771, 3.2768, 3.2780, 3.2775, 3.2770]


def table(control: list[object], treatment: list[object], first: int = 40) -> str:
    lines = [f"control,{first + i},{value}" for i, value in enumerate(control)]
    lines += [f"treatment,{first + i},{value}" for i, value in enumerate(treatment)]
    return "\n".join(["arm,seed,value", *lines]) + "\n"


def judged(text: str, rule: str, **options: object) -> OutsideVerdict:
    arguments = {"divergence": "arm_void", "data_arms": None, **options}
    return outside_verdict(
        read_runs(text, "runs.csv"), rule, direction="minimize", metric="loss", **arguments
    )  # type: ignore[arg-type]


def test_verdict_is_that_of_the_rule_and_unregistered() -> None:
    found = judged(table(CONTROL, BETTER), "superior(0.002) welch_t fixed(5) alpha 0.05")
    assert found.registered is False
    assert found.judgement == judge(
        CONTROL, BETTER, direction="minimize", claim_kind="superior", margin=0.002, alpha=0.05
    )
    assert found.seeds == ("40", "41", "42", "43", "44")
    assert (found.unused, len(found.sha256)) == (0, 64)


def test_looks_are_taken_in_the_files_order_until_one_decides() -> None:
    found = judged(table(CONTROL, BETTER), "superior(0.002) welch_t group(3,5) alpha 0.05")
    assert [(look.num_seeds, look.state) for look in found.looks] == [(3, "stop")]
    assert (found.unused, found.seeds) == (2, ("40", "41", "42"))
    backwards = table(CONTROL[::-1], BETTER[::-1])
    other = judged(backwards, "superior(0.002) welch_t group(3,5) alpha 0.05")
    assert other.judgement.estimate != found.judgement.estimate


def test_a_look_without_seeds_is_still_to_come() -> None:
    like = [value + 0.0001 for value in CONTROL[::-1]]
    found = judged(table(CONTROL, like), "superior(0.0005) welch_t group(3,5,8) alpha 0.05")
    assert [(look.num_seeds, look.state) for look in found.looks] == [(3, "go_on"), (5, "go_on")]
    assert found.looks[-1].next_seeds == 8
    assert found.judgement.outcome == "inconclusive"


def test_a_look_begun_in_one_arm_only_is_void() -> None:
    like = [value + 0.0001 for value in CONTROL[::-1]]
    text = table(CONTROL[:4], like[:3])
    found = judged(text, "superior(0.0005) welch_t group(3,5) alpha 0.05")
    assert found.judgement.outcome == "void"


def test_too_few_seeds_for_the_rule_are_void() -> None:
    found = judged(table(CONTROL, BETTER), "superior(0) welch_t fixed(8) alpha 0.05")
    assert found.judgement.reason.startswith("control has 5 of the 8 seeds")


def test_pairs_are_the_same_seed_whatever_the_order() -> None:
    lines = table(CONTROL, BETTER).splitlines()
    shuffled = "\n".join([lines[0], *lines[1:6], *reversed(lines[6:])])
    rule = "superior(0.002) paired_t fixed(5) alpha 0.05"
    assert judged(shuffled, rule).judgement == judged(table(CONTROL, BETTER), rule).judgement


def test_a_seed_without_its_partner_voids_pairs_only() -> None:
    text = table(CONTROL, []) + "".join(
        f"treatment,{seed},{value}\n" for seed, value in zip("abcde", BETTER, strict=True)
    )
    unpaired = judged(text, "superior(0.002) welch_t fixed(5) alpha 0.05")
    assert unpaired.judgement.outcome == "supported"
    assert unpaired.seeds[0] == "control 40"
    assert unpaired.seeds[-1] == "treatment e"
    paired = judged(text, "superior(0.002) paired_t fixed(5) alpha 0.05")
    assert paired.judgement.outcome == "void"


def test_anytime_ends_with_the_seeds_there_are() -> None:
    found = judged(table(CONTROL, BETTER), "superior(0.002) paired_t anytime alpha 0.05")
    assert found.looks[0].num_seeds == 3
    assert found.looks[-1].state in ("stop", "final")


def test_noise_runs_give_the_floor_of_a_calibrated_rule() -> None:
    noise = "".join(f"noise,{i},{3.28 + 0.001 * (i % 3)}\n" for i in range(12))
    text = table(CONTROL, BETTER) + noise
    rule = "superior(0.002) calibrated_t fixed(5) alpha 0.05"
    assert judged(text, rule, data_arms=False).judgement.degrees_of_freedom == 8 + 11
    with pytest.raises(InvalidFileError, match="must be told") as untold:
        judged(text, rule)
    assert "--same-data or --other-data" in untold.value.remedy
    with pytest.raises(InvalidFileError, match="spread differs by mixture"):
        judged(text, rule, data_arms=True)
    with pytest.raises(InvalidFileError, match="0 runs is too uncertain"):
        judged(table(CONTROL, BETTER), rule, data_arms=False)
    with pytest.raises(InvalidFileError, match="diverged repeat"):
        judged(text + "noise,99,\n", rule, data_arms=False)


def test_a_run_without_value_diverged_and_nan_voids() -> None:
    """Cases C: a NaN never wins and never counts as 0."""
    rule = "superior(0.002) welch_t fixed(5) alpha 0.05"
    empty = table(CONTROL, [*BETTER[:4], ""])
    assert "diverged" in judged(empty, rule).judgement.reason
    excluded = judged(empty, rule, divergence="exclude").judgement
    assert (excluded.n_treatment, excluded.outcome) == (4, "supported")
    nan = judged(table(CONTROL, [*BETTER[:4], "nan"]), rule, divergence="exclude").judgement
    assert (nan.outcome, nan.reason) == ("void", "1 of 5 treatment values are not finite")


@pytest.mark.parametrize(
    "rule",
    [
        "superior(0) welch_t fixed(3) alpha 0.05",
        "superior(0)",
        "superior(0) welch_t fixed(5) alpha 0.05 holm",
    ],
)
def test_rule_that_does_not_fit_is_refused_with_a_way_on(rule: str) -> None:
    with pytest.raises(InvalidFileError) as refused:
        judged(table(CONTROL, BETTER) if "fixed(3)" not in rule else table([1.0], []), rule)
    assert "--rule" in refused.value.remedy


def test_read_runs_names_every_fault_with_its_line() -> None:
    rows = ["control,1,3.2", "baseline,1,3.2", "control,1,3.3", "control,,3.2", "control,2,x"]
    text = "\n".join(["arm,seed,value", *rows, "control"])
    with pytest.raises(InvalidFileError) as refused:
        read_runs(text, "runs.csv")
    assert [(fault.where, fault.message) for fault in refused.value.faults] == [
        ("runs.csv:3", "arm 'baseline' is not control, treatment or noise"),
        ("runs.csv:4", "a second value of control seed 1"),
        ("runs.csv:5", "a run of control without a seed"),
        ("runs.csv:6", "value 'x' is not a number (leave it empty for a run that diverged)"),
        ("runs.csv:7", "a run of control without a seed"),
    ]


@pytest.mark.parametrize("text", ["", "arm,seed\ncontrol,1\n", "a;b\n"])
def test_read_runs_without_the_columns_says_which(text: str) -> None:
    with pytest.raises(InvalidFileError, match="has no column") as refused:
        read_runs(text, "runs.csv")
    assert "arm,seed,value" in refused.value.remedy


def test_read_runs_takes_spaces_a_mark_and_other_columns() -> None:
    rows = read_runs("\ufeffseed, value, arm, host\n1, 3.5, control, a\n", "runs.csv")
    assert [(row.arm, row.seed, row.value) for row in rows] == [("control", "1", 3.5)]


def test_void_reasons_name_the_files_seeds() -> None:
    rule = "superior(0.002) welch_t fixed(3) alpha 0.05"
    found = judged(table(["", *CONTROL[:2]], BETTER[:3]), rule)
    assert found.judgement.reason == "seed 40 of control diverged, and the rule is arm_void"
    assert found.judgement.reason in found.explanation.seen
    pairs = table(CONTROL[:3], BETTER[:2]) + f"treatment,x,{BETTER[2]}\n"
    reason = judged(pairs, rule.replace("welch_t", "paired_t")).judgement.reason
    assert reason == "treatment is without its seed 42"


@pytest.mark.parametrize("size", ["1e200", "1.7e308"])
@pytest.mark.parametrize("interval", ["welch_t", "paired_t"])
def test_values_beyond_a_double_are_void(size: str, interval: str) -> None:
    text = table([size] * 3, [f"-{size}"] * 3)
    found = judged(text, f"superior(0.02) {interval} fixed(3) alpha 0.05").judgement
    assert (found.outcome, found.lower) == ("void", None)
    assert "beyond 1e+150" in found.reason


def test_noise_beyond_a_double_is_refused() -> None:
    text = table(CONTROL, BETTER) + "".join(
        f"noise,{i},{s}1.7e308\n" for i, s in enumerate("-+" * 6)
    )
    with pytest.raises(InvalidFileError, match="within 1e"):
        judged(text, "superior(0) calibrated_t fixed(5) alpha 0.05", data_arms=False)
