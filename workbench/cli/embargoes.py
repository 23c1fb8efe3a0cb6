"""How an embargo is told in a terminal."""

from workbench.cli.show import say
from workbench.experiments.embargoes import STAYS_PUBLIC
from workbench.registry.embargo import OpenEmbargo


def print_embargo(experiment: str, embargo: OpenEmbargo) -> None:
    """Print until when an experiment is withheld, what is public all the same, and what to do."""
    say(f"  embargo    until {embargo.until}: {embargo.reason}")
    say(f"Public all the same: {STAYS_PUBLIC}.")
    say(f"Withheld by workbench publish only: do not push experiments/{experiment} and its")
    say(f"recipe to a public place. By the end of that day: workbench reveal {experiment[:4]}")
