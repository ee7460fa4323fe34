"""Posteriors of trials of the drift diffusion model, from likelihoods that were learnt from single trials."""
