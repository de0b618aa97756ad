"""Who may start, and why not? Pure: a frozen snapshot of a pool in, verdicts out."""
