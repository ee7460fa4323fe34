"""From atoms with signed weights to expectations, draws and ArviZ."""
