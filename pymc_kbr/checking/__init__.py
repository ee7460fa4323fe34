"""When not to trust a posterior: diagnostics, calibration, predictive checks and their plots."""
