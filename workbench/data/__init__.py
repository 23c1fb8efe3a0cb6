"""From sources to a tokenized, split, hashed corpus and a resumable stream."""
