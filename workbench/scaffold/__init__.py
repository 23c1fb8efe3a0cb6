"""The files that a new lab or proposal starts from."""
