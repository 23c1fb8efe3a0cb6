"""Options of ``workbench verdict`` for others' runs. Imports nothing that takes time."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

DIRECTIONS: dict[str, Literal["minimize", "maximize"]] = {
    "minimize": "minimize",
    "maximize": "maximize",
}
FromCsv = Annotated[
    Path | None, typer.Option(help="Others' runs (columns arm,seed,value) to judge; needs no lab.")
]
FromMlflow = Annotated[
    str,
    typer.Option(
        metavar="URI",
        help="Others' MLflow store to judge runs of, only read: sqlite:///FILE, DIR, http://…",
    ),
]
ExperimentName = Annotated[
    str, typer.Option(help="For --from-mlflow: the MLflow experiment's name.")
]
ArmTag = Annotated[
    str, typer.Option(help="For --from-mlflow: tag or parameter that says a run's arm.")
]
Control = Annotated[
    str, typer.Option(help="For --from-mlflow: its value in the control arm; else control.")
]
Treatment = Annotated[
    str, typer.Option(help="For --from-mlflow: its value in the treatment arm; else treatment.")
]
SeedParam = Annotated[
    str,
    typer.Option(help="For --from-mlflow: parameter or tag of the seed; else the order of start."),
]
RuleOption = Annotated[
    str,
    typer.Option("--rule", help='For others\' runs: "superior(0.02) welch_t fixed(5) alpha 0.05".'),
]
Better = Annotated[
    str, typer.Option("--direction", help="For others' runs: minimize or maximize the value.")
]
Metric = Annotated[
    str, typer.Option(help="For others' runs: what the value is; the key in MLflow.")
]
ExcludeDiverged = Annotated[
    bool, typer.Option("--exclude-diverged", help="Leave out runs without a value; else: void.")
]
SameData = Annotated[
    bool | None,
    typer.Option(
        "--same-data/--other-data", help="Whether both arms saw the same data (calibrated_t)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For others' runs: print JSON.")]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What others' runs are judged by."""

    rule: str
    direction: str
    metric: str
    exclude_diverged: bool
    same_data: bool | None
    as_json: bool

    @property
    def is_given(self) -> bool:
        """Whether any of it was said."""
        said = (self.rule, self.direction, self.metric, self.exclude_diverged, self.as_json)
        return any(said) or self.same_data is not None

    def require(self, option: str) -> None:
        """Refuse to guess a rule or a direction."""
        if not self.rule:
            raise typer.BadParameter(
                f'{option} needs --rule "superior(0.02) welch_t fixed(5) alpha …"'
            )
        if self.direction not in DIRECTIONS:
            raise typer.BadParameter(
                f"--direction {self.direction!r} is neither minimize nor maximize"
            )


@dataclass(frozen=True, kw_only=True)
class TrackedRuns:
    """Where others' MLflow runs are and how they are told apart."""

    uri: str
    experiment: str
    arm_tag: str
    control: str
    treatment: str
    seed_param: str

    @property
    def is_given(self) -> bool:
        """Whether any of it was said."""
        return any(asdict(self).values())
