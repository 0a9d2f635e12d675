"""What the notebooks offer to play with: an X-ray of DDP, and what the size of its buckets does to a step."""

from autograder.experiments.curve import BucketCurve
from autograder.experiments.xray import xray, xray_text

__all__ = ["BucketCurve", "xray", "xray_text"]
