"""Nonlinear regression with additive noise, whose conditional distributions are known."""
