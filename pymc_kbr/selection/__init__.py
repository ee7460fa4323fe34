"""Which estimator, by held-out rows."""
