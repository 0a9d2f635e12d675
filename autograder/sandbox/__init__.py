"""Where the ranks of a graded check run: in rooms that end with the submission and that nothing leaves but bytes.

Trusted, outside: the process that runs checks, the coordinator, whoever writes results. They talk to ranks over sockets
and pipes in msgpack and JSON, and never unpickle what comes back. Inside: the forkserver of ranks and the ranks, which
are the only processes that run a student's code.

bubblewrap makes a *building* once a grader: read-only system, Python environment and the packages that students have,
too; no other file, own process ids, loopback only, private /tmp. A *nursery* in it has torch imported and opens a
*room* for every submission: namespaces of its own, in which the forkserver is process 1, so that no rank can see, stop
or kill what stands above it. What a room can use is limited; when it ends, the kernel ends every process in it.

Limits: no memory cgroup. `watch` sums up what the processes of a room use, five times a second, and ends the room.
"""
