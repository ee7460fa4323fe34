"""Speed as ratios to something run beside it: ``python -m case_studies.speed``."""
