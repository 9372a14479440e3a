"""From leased groups to new weights: batches, packing, backends, checkpoints."""
