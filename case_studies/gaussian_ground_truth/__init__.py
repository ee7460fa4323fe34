"""Normal distributions, whose posteriors are known, as the ground truth of the papers' experiments."""
