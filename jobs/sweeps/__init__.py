"""Sweeps: one request that becomes many runs, a member for every combination of its parameters."""
