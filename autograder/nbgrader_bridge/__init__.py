"""The bridge to nbgrader: assignments, gradebook, manual grading and feedback are nbgrader's, points are ours.

nbgrader keeps everything an instructor knows: its folders, the gradebook, formgrader. What it does not do here is run a
submission: `autograder.grading` grades every notebook first, the trusted side seals the result, and nbgrader's
autograde only copies the sealed points and findings into the check cells.

An assignment is one lab, and holds one notebook that is named after it.

Limits: one course folder belongs to one instructor account; folders shared by several accounts (nbgrader's
`groupshared`) are not set up here.
"""
