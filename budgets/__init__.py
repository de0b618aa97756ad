"""How much may a team spend, what of it is promised to whom, and when must which work end for it?"""
