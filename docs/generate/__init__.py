"""What do the pages of docs/reference say that the code knows?"""
