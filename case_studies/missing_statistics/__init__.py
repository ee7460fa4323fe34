"""Observations with gaps against the exact posterior of what is there."""
