"""Wideproof."""
