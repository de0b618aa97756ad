"""How are training runs asked for and told in REST?"""
