"""How are endpoints asked for and told in REST?"""
