"""Sealing submissions ahead of the gradebook: `jobs` at a time, each worker with a sandbox of its own.

The gradebook is written by one thread, in order, while the workers are at the next submissions.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from autograder.grading.host import JobHost, Where
from autograder.nbgrader_bridge import intake, seal
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.nbgrader_bridge.intake import Submission
from autograder.nbgrader_bridge.regrades import Regrade


@dataclass(frozen=True)
class Sealing:
    """How submissions get their seals."""

    folder: CourseFolder
    assignment: str
    where: Where = "bubblewrap"
    jobs: int = 1
    again: bool = False  # also what has a fresh seal


Done = tuple[seal.Seal, Regrade | None]


@contextlib.contextmanager
def sealed(sealing: Sealing, submissions: list[Submission]) -> Iterator[list[Future[Done]]]:
    """A future for every submission, in order. Leaving the block, also by Ctrl-C, ends everything that still runs."""
    hosts = [JobHost(sealing.where) for _ in range(sealing.jobs)]
    free: queue.SimpleQueue[JobHost] = queue.SimpleQueue()
    for host in hosts:
        free.put(host)

    def work(submission: Submission) -> Done:
        host = free.get()
        try:
            intake.bring_in(sealing.folder, submission, sealing.assignment)
            return seal.ensure(sealing.folder, submission.student, sealing.assignment, host, again=sealing.again)
        finally:
            free.put(host)

    pool = ThreadPoolExecutor(sealing.jobs)
    try:
        yield [pool.submit(work, submission) for submission in submissions]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for host in hosts:
            host.interrupt()
        pool.shutdown(wait=True)
        for host in hosts:
            host.close()
