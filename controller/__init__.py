"""What makes the cluster match the rows? It has no models of its own."""
