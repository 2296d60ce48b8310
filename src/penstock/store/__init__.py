"""The Redis protocol as values: keys, scripts, and one typed command per script. No I/O happens
here.
"""
