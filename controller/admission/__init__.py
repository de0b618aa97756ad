"""Who of a pool starts now, and who has to leave for it?"""
