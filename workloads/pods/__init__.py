"""What do the pods of the cluster say? Pure: raw JSON in, facts out."""
