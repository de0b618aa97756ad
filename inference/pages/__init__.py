"""How are endpoints asked for and shown in the browser?"""
