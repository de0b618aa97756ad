"""Which nodes are there, what do they have free, and which part of one is a pod's?"""
