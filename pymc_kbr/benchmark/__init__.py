"""Speed as ratios to something run beside it: ``python -m pymc_kbr.benchmark``."""
