"""How much memory does a model need, and which flavor holds it?"""
