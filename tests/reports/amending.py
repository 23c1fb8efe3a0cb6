"""An amendment as an honest lab makes it."""

from tests.reports.sample import EXPERIMENT, PROPOSAL, RECIPE, MemoryLog, registration
from workbench.proxies.document_changes import documents_of, field_changes
from workbench.registry.amended import EFFECTS, course_of
from workbench.registry.entries import Amendment, Registration

AMENDED = PROPOSAL.replace("alpha: 0.05", "alpha: 0.01").replace(
    "Mixtures are usually", "Mixtures are nearly always"
)


def amendment_of(log: MemoryLog, proposal: str = AMENDED, recipe: str = RECIPE) -> Amendment:
    """Return an honest amendment at the end of the log."""
    course = course_of(log, EXPERIMENT)
    in_force = course.in_force()
    assert in_force is not None
    assert isinstance(in_force.body, Registration)
    new, known = registration(proposal), course.known()
    document = new.recipe.model_copy(update={"text": recipe})
    changed = new.model_copy(update={"recipe": document})
    return Amendment(
        experiment=EXPERIMENT,
        changes=field_changes(documents_of(in_force.body), documents_of(changed)),
        reason_class="error",
        reason="alpha was mistyped",
        timing=known.timing,
        rests_on=[entry.id for entry in known.rests_on],
        effect=EFFECTS[known.timing],
        proposal=new.proposal,
        recipe=document,
        full=new.full,
        frozen=new.frozen,
        control=new.control,
        data=new.data,
        num_seeds=new.num_seeds,
    )
