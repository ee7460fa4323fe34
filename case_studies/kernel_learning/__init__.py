"""Kernels learnt by marginal likelihood, and the tests that stand on them."""
