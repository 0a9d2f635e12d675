"""The autograder: builds, checks, hints and grades the exercises."""
