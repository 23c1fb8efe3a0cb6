"""What a checked rule is expected to say, as registrations and amendments record it."""

from workbench.experiments.checking import Checked
from workbench.registry.entries import StatedPower


def stated_power(checked: Checked) -> StatedPower | None:
    """Return what a checked rule is expected to say; None while the noise is not known."""
    rule = checked.rule
    if rule is None or rule.power is None or rule.noise is None:
        return None
    return StatedPower(
        effect=rule.effect,
        noise_sd=rule.noise.sd,
        noise_source=f"{rule.noise.origin}: {rule.noise.source}",
        chances={o.outcome: o.if_effect for o in rule.outcomes if o.if_effect is not None},
    )
