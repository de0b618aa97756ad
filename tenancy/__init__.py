"""What does a team's namespace hold besides its workloads?"""
