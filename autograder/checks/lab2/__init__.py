"""Checks of Lab 2."""
