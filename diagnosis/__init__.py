"""Why did it fail or not come up, and what next? Evidence from rows, a table of rules, findings in plain words."""
