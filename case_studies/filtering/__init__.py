"""Hidden states by the kernel Bayes filter: ``python -m case_studies.filtering``."""
