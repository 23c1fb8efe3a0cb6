"""The corpus in five lines, and what the record of it cannot show."""

from workbench.reports.blocks import Lines, Section, section
from workbench.reports.dataset.facts import DataFacts, stated_licences
from workbench.reports.dataset.overlap import set_title, still_contaminated
from workbench.reports.dataset.wording import lost_in_words, not_checked, share_of
from workbench.reports.narrative import Line, clause, line, listed
from workbench.reports.quantities import count, percent, scaled

UNKNOWN = "unknown"


def summary_section(facts: DataFacts) -> Section:
    """Return the five lines."""
    return section("summary", "In five lines", [Lines(lines=summary(facts))])


def summary(facts: DataFacts) -> tuple[Line, ...]:
    """Return what it holds, what was left out, its words, its contamination, its licences."""
    return (
        line("Holds", clause(_holds(facts))),
        line("Left out", clause(_left_out(facts))),
        line("Frequent words", clause(_words(facts))),
        line(
            "Contamination",
            clause(f"{contamination_in_words(facts)} {still_contaminated(facts)}".strip()),
        ),
        line("Licences", clause(_licences(facts))),
    )


def _holds(facts: DataFacts) -> str:
    domains = facts.manifest.domains
    shares = [f"{name} {percent(share)}" for name, share in facts.natural_shares.items()]
    return (
        f"{count(facts.documents, 'document')}, {scaled(facts.bytes, 'B')} of text, "
        f"{scaled(facts.training_tokens, 'training tokens')}; {count(len(domains), 'domain')} "
        f"({listed(shares)} of the training text){_languages(facts)}."
    )


def _languages(facts: DataFacts) -> str:
    """Return how many languages and programming languages; what is unknown is counted apart."""
    spoken, programmed, unknown = set(), set(), 0
    for cell in facts.manifest.composition:
        if cell.language == UNKNOWN:
            unknown += cell.documents
        elif facts.manifest.domains[cell.domain].content == "prose":
            spoken.add(cell.language)
        else:
            programmed.add(cell.language)
    kinds = ((spoken, "language"), (programmed, "programming language"))
    told = listed([count(len(found), noun) for found, noun in kinds if found])
    held = f" in {told}" if told else ""
    return f"{held}; {count(unknown, 'document')} in no known language" if unknown else held


def _left_out(facts: DataFacts) -> str:
    read = sum(record.read_bytes for record in facts.manifest.domains.values())
    cut = sum(stage.bytes_cut for stage in facts.stages)
    lost = sum(stage.bytes_removed for stage in facts.stages)
    limit = scaled(facts.manifest.config.max_document_bytes, "B")
    by_stage = listed([lost_in_words(stage) for stage in facts.stages])
    return (
        f"{share_of(cut, read)} of the {scaled(read, 'B')} that were read was cut from documents "
        f"longer than {limit}; {share_of(lost, read - cut)} of the rest was left out, of what came "
        f"into each stage: {by_stage}."
    )


def _words(facts: DataFacts) -> str:
    heads = sorted(facts.manifest.heads.items())
    if not heads:
        return "Not counted."
    told = []
    for domain, head in heads:
        kept = percent(head.kept.share)
        told.append(f"{domain} {percent(head.read.share)} as read, {kept} kept")
    return f"Share of the 1,000 most frequent: {'; '.join(told)}."


def contamination_in_words(facts: DataFacts) -> str:
    """Return method, threshold and overlap in one sentence."""
    found = facts.manifest.contamination
    sets = [
        f"{set_title(name)} {share_of(o.found, o.ngrams)} of n-grams, "
        f"{count(o.contaminated)} of {count(o.documents - o.unmeasured)} documents contaminated"
        for name, o in sorted(found.sets.items())
    ]
    sampled = "" if found.one_in == 1 else f", one in {count(found.one_in)} of them"
    return (
        f"{found.ngram}-grams of words{sampled}, threshold {percent(found.threshold)}: "
        f"{'; '.join(sets) or 'no set was measured'}."
    )


def _licences(facts: DataFacts) -> str:
    domains = facts.manifest.domains.values()
    named = {name for record in domains for name in record.licences if name != "not stated"}
    stated = sum(stated_licences(record) for record in domains)
    return (
        f"{count(len(named), 'licence')} stated for {share_of(stated, facts.documents)} of the "
        "documents, as the sources say."
    )


def limits_section(facts: DataFacts) -> Section:
    """Return what this page does not show."""
    return section("limits", "What this does not show", [Lines(lines=tuple(_limits(facts)))])


def _limits(facts: DataFacts) -> list[Line]:
    config = facts.manifest.config
    found = [
        line(
            "Paraphrase",
            clause(
                "Contamination and near-duplicates are told by runs of words. A paraphrase, a "
                "translation or a text with every few words changed is not found."
            ),
        ),
        line(
            "Served tokens",
            clause(
                "The overlap is with everything that training could be served. What one run drew "
                "of it is in that run’s chronicle."
            ),
        ),
        line(
            "Licences",
            clause("Stated by the sources and counted; nobody checked that they are true."),
        ),
        line(
            "Personal data, harm",
            clause("Not looked for: there is no filter for personal data, toxicity or secrets."),
        ),
    ]
    if facts.manifest.contamination.one_in > 1:
        text = "The n-grams looked for are a sample; a small overlap may be missed."
        found.append(line("Sampling", clause(text)))
    if config.language is None:
        text = "Not identified: prose is in whatever it came in, and labels are the sources’ own."
        found.append(line("Language", clause(text)))
    else:
        text = (
            "A classifier’s guess from a sample of each text; mixed texts count as one language. "
            "Code and mathematics are exempt."
        )
        if said := not_checked(facts):
            text = f"{text} In {listed(list(said))} the source’s labels were taken as they are."
        found.append(line("Language", clause(text)))
    if config.near_duplicates is None:
        found.append(line("Near-duplicates", clause("Not looked for, within or across splits.")))
    else:
        text = (
            "Some pairs above the threshold are never compared; the settings give the "
            "probability. Pairs in different languages are not compared at all."
        )
        found.append(line("Near-duplicates", clause(text)))
    if config.quality is None:
        found.append(line("Quality", clause("Not judged: no text was weighed against another.")))
    else:
        text = "Matched to the reference’s scores: what the classifier cannot tell is not matched."
        found.append(line("Quality", clause(text)))
    return found
