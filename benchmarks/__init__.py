"""Measurements as ratios: what the portal takes, beside what the limit takes in the same run on the same machine."""
