"""The trusted side of a run: it matches what ranks announce, owns virtual time and decides every outcome. Imports no
torch.
"""
