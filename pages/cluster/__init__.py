"""What is in the cluster, who has it, and where would more fit? Pages of it; nothing here writes."""
