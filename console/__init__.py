"""What do runs and endpoints show alike, and what of a team's namespace may people change? REST and pages."""
