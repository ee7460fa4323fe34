"""Rows simulated here, in threads, in worker processes and on clusters."""
