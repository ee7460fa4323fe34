"""Wrong changes planted in the numerics, and whether the tests notice: ``python -m tests.mutation``."""
