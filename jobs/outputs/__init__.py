"""Outputs: files that a run says it has written, where they lie, and how one gets them."""
