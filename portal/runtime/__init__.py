"""Which processes are there, and how do they start, live and end together?"""
