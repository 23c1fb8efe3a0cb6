"""What a run draws: mixtures, streams, batches, and what was served."""
