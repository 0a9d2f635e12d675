"""Virtual memory: what a rank's tensors hold, by kind and module, and what a layer saves for its backward.

Importing it does not import torch.
"""
