"""The telemetry schema and the signatures of failure in it."""
