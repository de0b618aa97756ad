"""How are people, teams and tokens asked for and told in REST, and who is asking?"""
