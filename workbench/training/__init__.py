"""The Lightning side of a run: module, phases, checkpoints, tracking."""
