"""What do pages show of GPUs: what those of a run or an endpoint did, which are held idle, and what alerts say?"""
