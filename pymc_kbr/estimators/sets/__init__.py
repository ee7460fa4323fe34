"""Data sets of any number of rows: kernels between them, and columns that summarise them."""

from pymc_kbr.estimators.sets.features import SetFeatures
from pymc_kbr.estimators.sets.kernels import EmbeddingKernel, SlicedWassersteinKernel

__all__ = ["EmbeddingKernel", "SetFeatures", "SlicedWassersteinKernel"]
