"""How are facts written on pages?"""
