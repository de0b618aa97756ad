"""What do the GPUs do, and who wastes them? Their metrics, idle holds, alerts, and what a run really needed."""
