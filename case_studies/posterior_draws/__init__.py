"""Draws against exact posteriors and held-out truths: how far `auto` can be trusted."""
