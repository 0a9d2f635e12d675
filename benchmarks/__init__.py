"""Measurements, one module each: ratios and wall times taken in one run, on this machine. Tests never assert these."""
