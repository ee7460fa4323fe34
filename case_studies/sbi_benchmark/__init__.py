"""The ten tasks of sbibm: estimators of this package against reference posteriors."""
