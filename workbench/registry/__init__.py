"""What was promised and what happened: an append-only, signed, verifiable log."""
