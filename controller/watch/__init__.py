"""What is in the cluster? list + watch per kind, kept as rows."""
