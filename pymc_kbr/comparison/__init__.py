"""Accuracy against seconds, of estimators and their rivals."""
