"""What does a change of an endpoint do, and how does its rollout go?"""
