"""How does a quota manager set quotas? The console: a grid, drafts of changes, cohorts, teams, requests."""
