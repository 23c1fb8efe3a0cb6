"""How the scores of the corpus were brought to those of a reference."""

from workbench.reports.blocks import Section, lines, say, section
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.wording import settings_in_words
from workbench.reports.narrative import clause, line


def quality_section(facts: DataFacts) -> Section:
    """Return the distributions before and after, and the distance between them."""
    title = "Quality matching"
    stage = facts.stage("quality")
    if stage is None:
        return section("quality", title, [say("No text was matched to a reference.")])
    told = [
        line("Settings", clause(f"{settings_in_words(stage.settings)}.")),
        line("Measured", clause(f"{settings_in_words(stage.findings)}.")),
    ]
    return section("quality", title, [lines(*told)])
