"""From solutions/ to what students open: parse, check everything, then write. The format is in docs/lab_anatomy.md.

Nothing is written if any marker is malformed, and building twice gives the same bytes.
"""
