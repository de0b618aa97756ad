"""How does the audit trail stay small and readable? Sums of what repeats, refused commands, names of targets."""
