"""The theorems, one in each file: what it is asked with, its claims, how they are found, and its sentence."""
