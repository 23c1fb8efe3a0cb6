"""Where the experiment stands, and what was promised before anything ran."""

from workbench.registry.approvals import promises
from workbench.registry.entries import Registration
from workbench.registry.proposal import Hypothesis, Proposal
from workbench.reports.blocks import (
    Block,
    Folded,
    Heading,
    Lines,
    Prose,
    Row,
    Section,
    lines,
    say,
    section,
    table,
)
from workbench.reports.documents import prose
from workbench.reports.facts import Cited, ExperimentFacts, Source, source_of
from workbench.reports.narrative import Line, clause, line, listed, sentence
from workbench.reports.quantities import (
    count,
    number,
    percent,
    signed,
    significant,
    stamp,
    unit_of,
    with_unit,
)
from workbench.reports.status import status_lines
from workbench.reports.wording import (
    family_in_words,
    interval_in_words,
    pairing_in_words,
    stopping_in_words,
)


def status_section(facts: ExperimentFacts) -> Section:
    """Return the five lines."""
    return section("status", "Status", [Lines(lines=status_lines(facts))])


def question_section(facts: ExperimentFacts) -> Section:
    """Return the registered question with its rule, design and text."""
    title = "The registered question"
    if facts.registration is None or facts.proposal is None:
        text = (
            "Nothing was registered under this subject. What ran is shown below, watermarked; it "
            "can suggest a question and cannot answer one."
        )
        return section("question", title, [say(text)])
    registration, proposal = facts.registration, facts.proposal
    sources = registration.sources
    blocks: list[Block | None] = []
    for hypothesis in proposal.hypotheses:
        decides = hypothesis.id in {claim.hypothesis for claim in proposal.claims()}
        blocks += _hypothesis(hypothesis, proposal, sources, decides=decides)
    blocks += [
        Heading(text="The rule that decides"),
        lines(
            *_rule(proposal, sources),
            *_family(proposal, sources),
            *_noise_floor(facts),
            *_power(facts),
        ),
        table(
            "What happens on each outcome.",
            ["Outcome", "Registered action"],
            [
                Row(cells=(outcome, sentence(action)), sources=sources)
                for outcome, action in proposal.decision.actions.model_dump().items()
            ],
        ),
        Heading(text="Design"),
        lines(*_design(proposal, sources)),
        Heading(text="What was frozen"),
        lines(*_frozen(registration, facts.original or registration), *_approvals(facts)),
        _text(registration),
    ]
    return section("question", title, blocks)


def _hypothesis(
    hypothesis: Hypothesis, proposal: Proposal, sources: tuple[Source, ...], *, decides: bool
) -> list[Block | None]:
    deciding = [claim.metric for claim in proposal.claims() if claim.hypothesis == hypothesis.id]
    metric = deciding[0] if deciding else proposal.measures.primary.metric
    effect = with_unit(significant(hypothesis.minimum_effect), metric)
    role = "decided by the verdict" if decides else "registered, not decided by the rule"
    wanted = {"treatment_lower": "lower", "treatment_higher": "higher"}[hypothesis.direction]
    return [
        Heading(text=f"{hypothesis.id}, {role}"),
        say(sentence(hypothesis.statement), sources),
        lines(
            line("Expected", clause(f"{metric} {wanted} under the treatment.", sources)),
            line("Because", clause(sentence(hypothesis.mechanism), sources)),
            line(
                "Would change our mind", clause(sentence(hypothesis.would_change_my_mind), sources)
            ),
            line("Smallest effect of interest", clause(f"{effect}.", sources)),
        ),
    ]


def _rule(proposal: Proposal, sources: tuple[Source, ...]) -> list[Line]:
    rule, primary = proposal.decision, proposal.measures.primary
    kinds = {
        "superior": "refuted if the upper bound of the improvement is below δ, else supported if "
        "the lower bound is above 0, else inconclusive",
        "superior_by": "supported if the lower bound is above δ, refuted if the upper is below δ",
        "non_inferior": "supported if the lower bound is above −δ, refuted if the upper is "
        "below −δ",
        "equivalent": "supported if both bounds lie inside ±δ, refuted if both lie beyond a side",
    }
    margin = with_unit(significant(rule.margin), primary.metric)
    unit = f" ({unit_of(primary.metric)})" if unit_of(primary.metric) else ""
    measured = (
        f"{primary.metric}{unit} on the sealed test split at the final step, {primary.direction}d."
    )
    found = [
        line(
            "Claim",
            clause(sentence(f"{rule.claim}, δ = {margin}: {kinds[rule.claim_kind]}"), sources),
        ),
        line("Measure", clause(measured, sources)),
        line("Interval", clause(sentence(interval_in_words(proposal)), sources)),
        line("Stopping", clause(sentence(stopping_in_words(proposal)), sources)),
        line("Pairing", clause(sentence(pairing_in_words(proposal)), sources)),
        line("Divergence", clause(_divergence(proposal), sources)),
    ]
    if primary.evaluation_set_hash:
        pinned = clause(
            "the sealed test split, fingerprint", sources, code=primary.evaluation_set_hash
        )
        found.append(line("Evaluation set", pinned))
    for rail in proposal.measures.guardrails:
        text = f"{rail.metric} at most {significant(rail.at_most)}."
        found.append(line("Guardrail", clause(text, sources)))
    return found


def _family(proposal: Proposal, sources: tuple[Source, ...]) -> list[Line]:
    """Return the claims that are decided with the first one; nothing where there are none."""
    text = family_in_words(proposal)
    if not text:
        return []
    found = [line("Family", clause(sentence(text), sources))]
    for claim in proposal.claims()[1:]:
        margin = with_unit(significant(float(claim.claim.partition("(")[2][:-1])), claim.metric)
        told = f"{claim.claim} on {claim.metric}, {claim.direction}d; δ = {margin}"
        found.append(line(f"Claim of {claim.hypothesis}", clause(f"{told}.", sources)))
    return found


def _noise_floor(facts: ExperimentFacts) -> list[Line]:
    """Return the noise floor that the rule takes its spread from; nothing where it takes none."""
    proposal, registration = facts.proposal, facts.registration
    if proposal is None or registration is None or not proposal.decision.noise_floor:
        return []
    if facts.noise_floor is None:
        text = "hidden from this reader" if facts.hidden_floor else "not in this log"
        told = clause(
            f"entry {text}, leaf", registration.sources, code=proposal.decision.noise_floor
        )
        return [line("Noise floor", told)]
    body = facts.noise_floor.value
    metrics = dict.fromkeys(claim.metric for claim in proposal.claims())
    spreads = [
        f"{metric} varies by {significant(body.spreads[metric], 3)}"
        for metric in metrics
        if metric in body.spreads
    ]
    repeats = count(body.num_runs, "repeat")
    what = f"{repeats} of {body.recipe} at scale {body.scale}: {listed(spreads)}"
    return [line("Noise floor", clause(sentence(what), facts.noise_floor.sources))]


def _power(facts: ExperimentFacts) -> list[Line]:
    """Return what the rule is expected to say; nothing where that was never computed.

    Where an amendment gives no chances of its own, those of the registration stand as outdated.
    """
    stated = facts.registration
    outdated = ""
    if stated is not None and stated.value.power is None and facts.course.amendments:
        stated, outdated = facts.original, " (of the rule as first registered, not as amended)"
    if stated is None or stated.value.power is None:
        return []
    power, sources = stated.value.power, stated.sources
    told = listed([f"{outcome} {percent(chance, 0)}" for outcome, chance in power.chances.items()])
    text = (
        f"if the improvement is truly {signed(power.effect)}: {told}; seeds of an arm vary by "
        f"{significant(power.noise_sd)} ({power.noise_source})"
    )
    return [line("Expected of the rule", clause(sentence(f"{text}{outdated}"), sources))]


def _divergence(proposal: Proposal) -> str:
    rule = proposal.divergence
    then = {
        "arm_void": "a diverged run makes the verdict void",
        "exclude": "a diverged run is left out and reported",
    }[rule.rule]
    return sentence(
        f"loss above {significant(rule.loss_above)} nats/token for {count(rule.patience, 'step')}, "
        f"or not finite; {then}"
    )


def _design(proposal: Proposal, sources: tuple[Source, ...]) -> list[Line]:
    design, sweep = proposal.design, proposal.sweep
    search = (
        f"{count(sweep.budget_trials, 'trial')} of {sweep.recipe}, sampler {sweep.sampler.name} "
        f"with seed {sweep.sampler.seed}, pruning {sweep.pruning.rule}, failed trials: "
        f"{sweep.failed_trials.replace('_', ' ')}, ties: {sweep.tie_break.replace('_', ' ')}; "
        f"the top {sweep.rerun.top_k} again on {count(sweep.rerun.fresh_seeds, 'fresh seed')}."
    )
    budget = (
        f"at most {significant(proposal.promotion.budget_device_hours)} device-hours at full "
        f"scale, {significant(proposal.budget_cap_device_hours)} in all"
    )
    metric = proposal.measures.primary.metric
    guess = with_unit(signed(proposal.promotion.forecast.expected_improvement), metric)
    at_most = "" if len(proposal.decision.looks) == 1 else "At most "
    found = [
        line("Manipulated", clause(sentence(listed(design.manipulated)), sources)),
        line("Held fixed", clause(sentence("; ".join(design.held_fixed)), sources)),
        line("Control arm", clause(sentence(design.control_arm), sources)),
        line("Ladder", clause(f"Scales {listed(design.scales)}.", sources)),
        line(
            "Repeats",
            clause(f"{at_most}{count(design.seeds, 'seed')} an arm at full scale.", sources),
        ),
        line("Search", clause(search, sources)),
        line("Budget", clause(sentence(budget), sources)),
        line("Proposer’s own guess", clause(f"Improvement {guess}.", sources)),
    ]
    for plan in proposal.contingencies:
        times = "once" if plan.max_uses == 1 else f"{number(plan.max_uses, 0)} times"
        during = "" if plan.phase == "any" else f"in phase {plan.phase}, "
        text = f"{during}if {plan.when}, then {plan.then} (at most {times})"
        found.append(line("Contingency", clause(sentence(text), sources)))
    found += [line("Exclusion", clause(sentence(text), sources)) for text in proposal.exclusions]
    return found


def _frozen(registration: Cited[Registration], original: Cited[Registration]) -> list[Line]:
    body, sources = registration.value, registration.sources
    state = "with uncommitted changes" if body.code.dirty else "clean work tree"
    tools = ", ".join(f"{name} {version}" for name, version in sorted(body.environment.items()))
    files = [
        line(name, clause(f"{document.path}, SHA-256", sources, code=document.sha256))
        for name, document in (
            ("Proposal", body.proposal),
            ("Sweep recipe", body.recipe),
            ("Full scale", body.full),
        )
    ]
    return [
        line("When", clause(f"{stamp(original.time)}, by {sources[0].actor}", original.sources)),
        line("Code", clause(f"{state}, commit", sources, code=body.code.commit)),
        line("Environment", clause(tools or "not recorded", sources)),
        line("Data", clause(f"{body.data.corpus}, manifest", sources, code=body.data.manifest)),
        *files,
    ]


def _approvals(facts: ExperimentFacts) -> list[Line]:
    """Return who approved each promise; nothing where no approval was required."""
    found: list[Line] = []
    for promise in promises(facts.entries):
        entry, names = promise.entry, listed(promise.approved_by) or "nobody yet"
        text = f"{promise.required} required, given by {names}"
        found.append(line(f"Approval of the {entry.kind}", clause(f"{text}.", [source_of(entry)])))
    return found


def _text(registration: Cited[Registration]) -> Block | None:
    markdown = prose(registration.value.proposal)
    if not markdown:
        return None
    return Folded(
        summary="The proposal’s text, as registered",
        block=Prose(markdown=markdown, sources=registration.sources),
    )
