"""Whether this installation can train; imports none of what it looks for."""

import importlib.util
from collections.abc import Sequence

from workbench.errors import MissingDependencyError

TRAINING_PACKAGES = ("datasets", "lightning", "mlflow", "optuna", "tokenizers", "torch")


def require_training_extra(packages: Sequence[str] = TRAINING_PACKAGES) -> None:
    """Refuse what the core install cannot do.

    Args:
        packages: Those of the extra that are needed.

    Raises:
        MissingDependencyError: names the packages that are missing.
    """
    missing = [n for n in packages if importlib.util.find_spec(n) is None]
    if missing:
        raise MissingDependencyError(
            f"this command needs {', '.join(missing)}, which the core install leaves out",
            remedy="pip install 'pretrain-workbench[train]'   (from a clone: '.[train]')",
        )
