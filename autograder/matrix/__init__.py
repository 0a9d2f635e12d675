"""The grader graded: wrong solutions that every check must reject and right ones that it must accept (authors).

They stand in tests/mutants and tests/variants; `lockstep mutants` runs them, docs/mutation_matrix.md publishes them.
"""
