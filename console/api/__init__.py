"""How are workloads asked for and told in REST?"""
