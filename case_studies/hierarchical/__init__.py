"""Hierarchical models whose likelihood is learnt once, from simulations of a single group."""
