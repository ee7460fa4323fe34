"""Learned likelihoods of single trials, ours and neural ones, beside the exact one."""
