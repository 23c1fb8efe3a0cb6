"""What every body of an entry is made of."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from workbench.canonical import Json, decimal, freeze, from_decimal


def _number(value: Json) -> float:
    return from_decimal(value) if isinstance(value, str) else float(value)


_DECIMAL = r"^(-?[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?|non-finite\((nan|[+-]inf)\))$"
Number: TypeAlias = Annotated[
    float,
    BeforeValidator(_number),
    PlainSerializer(decimal),
    WithJsonSchema({"type": "string", "pattern": _DECIMAL}),
]
"""A double, in JSON as its shortest decimal string; non-finite values are marked as such."""

Mode: TypeAlias = Literal["confirmatory", "exploratory"]
Outcome: TypeAlias = Literal["completed", "failed", "killed", "lost", "diverged"]
TrialState: TypeAlias = Literal["completed", "pruned", "failed", "diverged", "lost"]


class Record(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Body(Record):
    """The body of one entry kind."""

    kind: ClassVar[str]
    signed: ClassVar[bool] = False
    """Whether the author signs the entry's leaf hash."""

    def to_json(self) -> Json:
        """Return the body in the ledger's JSON profile."""
        return freeze(self.model_dump(mode="python", exclude_none=True))


class Hidden(Body):
    """Stands for a body that this reader does not have: withheld by an embargo, or redacted.

    It is no kind of entry: the entry's own kind is in its envelope, which is never hidden.
    """

    kind = "hidden"
