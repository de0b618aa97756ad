"""What is done to many workloads at once, in a few statements?"""
