"""A worked example: orders from files become jobs, their results come back, and their history is
kept and reported. `steps` has the calls of penstock that it takes, `story` plays them.
"""
