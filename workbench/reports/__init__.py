"""Chronicles from the ledger alone."""
