"""What do the measurements run against? Clusters, databases, rows and loads."""
