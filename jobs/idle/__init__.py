"""When is a run that holds GPUs and does nothing warned, and when stopped? By its template's policy; off by default."""
