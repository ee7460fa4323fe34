"""Weighted atoms in a reproducing kernel Hilbert space, and the rules that make them."""
