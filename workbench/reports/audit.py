"""Every verdict computed again from the record alone, by whatever rule was registered.

The libraries of the analysis come with it; `workbench.reports.checks` is the same without them, for
who passes the rules when they are needed.
"""

from workbench.registry.log import LogSource
from workbench.reports.applied import applied
from workbench.reports.checks import audited, checked
from workbench.reports.facts import ExperimentFacts
from workbench.reports.findings import AuditFinding


def audit_claims(source: LogSource) -> list[AuditFinding]:
    """Return every check of every verdict in the log, in the order of the ledger."""
    return audited(source, apply=applied)


def audit_experiment(facts: ExperimentFacts) -> list[AuditFinding]:
    """Return the checks of an experiment's verdict; empty while there is none."""
    return checked(facts, apply=applied)
