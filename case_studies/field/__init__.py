"""The field on one picture: accuracy against processor seconds, on the same simulations."""
