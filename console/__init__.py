"""What do runs and endpoints show alike, and what may people change in a team's namespace? REST and pages."""
