"""What scales an endpoint, by what, and how many replicas are there? Objects, queries, rows and commands."""
