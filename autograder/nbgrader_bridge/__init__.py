"""The bridge to nbgrader: assignments, gradebook, manual grading and feedback are nbgrader's, points are ours.

nbgrader keeps everything an instructor knows (source, release, submitted, autograded and feedback folders, the gradebook,
formgrader). What it does not do here is run a submission: every notebook is graded by `autograder.grading` first, the
result is sealed by the trusted side, and nbgrader's autograde only copies the sealed points and findings into the check
cells.

Limits: one course folder belongs to one instructor account; folders shared by several accounts (nbgrader's
`groupshared`) are not set up here.
"""
