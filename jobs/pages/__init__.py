"""How are training runs asked for and shown in the browser?"""
