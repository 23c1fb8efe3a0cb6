"""Settings of a lab: ``workbench.toml``, then environment variables ``WORKBENCH_…`` over it."""

import os
from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from workbench.errors import Fault, InvalidFileError


def default_keys_dir() -> Path:
    """Return ``$XDG_CONFIG_HOME/workbench/keys`` or its default below the home folder."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "workbench" / "keys"


class Settings(BaseSettings):
    """What a lab is called and where its stores and keys are."""

    model_config = SettingsConfigDict(env_prefix="WORKBENCH_", extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=80)
    """Shown in chronicles."""
    origin: str = Field(pattern=r"^[a-z0-9][a-z0-9./_-]{2,119}$")
    """The log's identity in signed tree heads (C2SP signed-note key name)."""
    actor: str = Field(default="researcher", min_length=1, max_length=80)
    """Recorded as the author of entries; a role or a handle, not necessarily a person's name."""
    approvals_required: int = Field(default=0, ge=0, le=20)
    """Reviewers who must approve a registration before anything confirmatory runs."""
    reviewers: dict[str, str] = {}
    """C2SP verifier key by short name; table ``[reviewers]``. Frozen by each registration."""
    store_url: str = "sqlite:///.workbench/ledger.db"
    """SQLite file, or ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME``, one schema a log.

    A relative SQLite path is taken from the lab's root. The password of a database belongs in
    ``PGPASSWORD``, not in the file.
    """
    peak_tflops: float | None = Field(default=None, gt=0)
    """What one device of this lab can do in bf16, by its data sheet or as measured, 10^12 FLOPs a
    second: with it, runs tell their model FLOPs utilization (MFU)."""
    mlflow_uri: str = "sqlite:///.workbench/mlflow.db"
    optuna_url: str = "sqlite:///.workbench/optuna.db"
    keys_dir: Path = Field(default_factory=default_keys_dir)
    """Holds one folder per log origin; never inside the lab."""


def load_settings(config: Path) -> Settings:
    """Read ``workbench.toml`` with the environment over it.

    Raises:
        InvalidFileError: the file is not TOML or a key is unknown, missing or out of range.
    """

    class FileSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del init_settings, dotenv_settings, file_secret_settings
            return env_settings, TomlConfigSettingsSource(settings_cls, config)

    try:
        return FileSettings()
    except ValidationError as error:
        faults = [
            Fault(where=config.name, message=f"{'.'.join(map(str, e['loc']))}: {e['msg']}")
            for e in error.errors()
        ]
        raise InvalidFileError(f"{config.name} cannot be used", faults) from error
    except ValueError as error:
        raise InvalidFileError(f"{config.name} is not valid TOML: {error}") from error


def absolute_url(url: str, root: Path) -> str:
    """Return the URL with a relative SQLite path resolved against the lab's root.

    Raises:
        InvalidFileError: the root holds a ? or %, so that the URL would name another file.
    """
    prefix = "sqlite:///"
    if not url.startswith(prefix) or url.startswith(prefix + "/"):
        return url
    refuse_unnameable(root)
    return f"{prefix}{root / url.removeprefix(prefix)}"


def refuse_unnameable(root: Path) -> None:
    """Refuse a lab's folder that no SQLite URL can name.

    Raises:
        InvalidFileError: its path holds a ?, where a URL's path ends, or a %, which it decodes.
    """
    if "?" in str(root) or "%" in str(root):
        raise InvalidFileError(
            f"the lab's path {str(root)!r} has a ? or a %, which no store URL can hold",
            remedy="rename the folder",
        )
