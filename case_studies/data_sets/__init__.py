"""Posteriors given raw data sets, against those given statistics."""
