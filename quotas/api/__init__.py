"""How are quotas, cohorts, changes and decisions asked for and told in REST?"""
