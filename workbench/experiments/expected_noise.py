"""Which noise between seeds a plan is computed with, of all that is stated or measured."""

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.analysis.rules import NoiseFloor
from workbench.experiments.draft import ClaimDraft, ProposalDraft
from workbench.experiments.noise import Noise, measured_noise
from workbench.registry.log import LogSource


@dataclass(frozen=True, kw_only=True)
class NoiseSources:
    """Where the noise of a claim's metric may be known from."""

    draft: ProposalDraft
    source: LogSource | None
    corpus: str | None
    """``name@version`` of the recipe's."""
    subject: str
    """The experiment, which never measures its own noise before it ran."""
    floors: Mapping[str, NoiseFloor]
    """Spreads of the noise floor that the proposal names."""

    def stated(self) -> Noise | None:
        """Return what the proposal says of its primary metric."""
        if self.draft.noise_sd is None or self.draft.noise_sd <= 0:
            return None
        words = self.draft.noise_source or "no source given"
        return Noise(sd=self.draft.noise_sd, origin="assumed", source=words)

    def measured(self, claim: ClaimDraft) -> Noise | None:
        """Return the named noise floor's spread, else what other experiments measured."""
        floor = self.floors.get(claim.metric or "")
        if floor is not None:
            return Noise(
                sd=floor.sd,
                origin="measured",
                source=f"noise floor {(self.draft.noise_floor or '')[:12]}",
                freedom=floor.degrees_of_freedom,
            )
        if self.source is None or self.corpus is None or not claim.metric:
            return None
        return measured_noise(
            self.source, metric=claim.metric, corpus=self.corpus, but=self.subject
        )

    def taken(self, claim: ClaimDraft) -> Noise | None:
        """Return the noise that counts: what is stated of the metric, else what is measured."""
        of_primary = claim.metric is not None and claim.metric == self.draft.metric
        stated = self.stated() if of_primary else None
        return stated or self.measured(claim)
