"""The command line: one file per noun."""

from penstock.cli.program import main

__all__ = ["main"]
