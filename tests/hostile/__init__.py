"""What hostile use once broke, tried again through the command line and real processes.

`python -m tests.hostile` runs all of it and prints one line for each case.
"""
