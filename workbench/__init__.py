"""A research workbench for pretraining: register first, then run, then let the rule decide."""

__version__ = "0.1.0"
