"""Checks of Lab 1, and the toy transformer that its experiment runs on real ranks."""
