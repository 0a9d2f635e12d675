"""The tests. A package only so that test files can share helpers (tests.needs, tests.leaks)."""
