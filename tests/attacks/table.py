"""Attacks on the grader, one small exercise cell each. `{name}` fields are filled in by the test: see `Attack.cell`.

`inside` runs in every call of the function, `outside` when the cell is loaded. The honest part of a cell is `BASE[base]`,
which earns the same without the attack.
"""

# ruff: noqa: E501 - an attack is a line of a student's code, and breaking it makes it no clearer
from __future__ import annotations

import textwrap
from dataclasses import dataclass

EXERCISE = "lab2/ring-all-reduce"

# What the cell does honestly: nothing, everything, or the sum through one rank, which loses points for its traffic.
BASE = {
    "nothing": "pass\n",
    "right": """\
rank, size = dist.get_rank(), dist.get_world_size()
chunks = tensor.tensor_split(size)
for step in range(2 * (size - 1)):
    out, into = (rank - step) % size, (rank - step - 1) % size
    arriving = torch.empty_like(chunks[into])
    sending = dist.isend(chunks[out], (rank + 1) % size)
    dist.recv(arriving, (rank - 1) % size)
    sending.wait()
    if step < size - 1:
        chunks[into].add_(arriving)
    else:
        chunks[into].copy_(arriving)
""",
    "hub": """\
rank, size = dist.get_rank(), dist.get_world_size()
if rank == 0:
    arriving = torch.empty_like(tensor)
    for peer in range(1, size):
        dist.recv(arriving, peer)
        tensor += arriving
    for peer in range(1, size):
        dist.send(tensor, peer)
else:
    dist.send(tensor, 0)
    dist.recv(tensor, 0)
""",
}


@dataclass(frozen=True)
class Attack:
    """One attack. `finds`: keys of findings of which one must be reported; empty when nothing went wrong for the check.

    `says` must stand in a finding.
    """

    name: str
    outside: str = ""
    inside: str = ""
    base: str = "nothing"
    finds: tuple[str, ...] = ("value",)
    says: str = ""

    def cell(self, **names: object) -> str:
        """The exercise cell. `names` replace {marks} in the attack's code."""
        outside, inside = self.outside, self.inside
        for name, value in names.items():
            outside, inside = (text.replace(f"<{name}>", str(value)) for text in (outside, inside))
        body = textwrap.indent(f"{textwrap.dedent(inside)}\n{BASE[self.base]}", "    ")
        return f"# exercise: {EXERCISE}\n{textwrap.dedent(outside)}\ndef ring_all_reduce(tensor):\n{body}"


def honest(base: str) -> str:
    """The cell of a base without an attack."""
    return Attack("honest", base=base).cell()


_ALWAYS = "class Always:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
_LINK = "from simulator.rank import context\nlink = context.get().link\nsock = link._sock\n"
_SEND = (
    f"{_LINK}import os, msgspec\nfrom simulator import wire\nE, encode = msgspec.msgpack.Ext, msgspec.msgpack.encode"
)
_TELL = "def tell(found): raise RuntimeError('FOUND ' + repr(found)[:1500])\n"
_QUIET = "import contextlib, os, signal\n"

#: Against what compares and decides: none of it runs where the student's code runs.
COMPARISONS = (
    Attack("numpy comparison", "import numpy\nnumpy.allclose = numpy.array_equal = lambda *a, **k: True"),
    Attack("torch comparison", "torch.allclose = torch.equal = torch.Tensor.equal = lambda *a, **k: True"),
    Attack(
        "torch eq", "torch.Tensor.__eq__ = lambda *a: True\ntorch.Tensor.__ne__ = lambda *a: False", finds=("crash",)
    ),
    Attack("class of the tensor", inside=f"{_ALWAYS}class T(torch.Tensor, Always): pass\ntensor.__class__ = T"),
    Attack(
        "builtins",
        "import builtins\nbuiltins.all = builtins.any = builtins.isinstance = lambda *a: True",
        finds=("crash",),
    ),
    Attack("assert", "import builtins\nbuiltins.AssertionError = type('Quiet', (SystemExit,), {})"),
    Attack(
        "IPython",
        "from IPython import get_ipython as g\nif g(): g().input_transformers_post.append(lambda s: ['pass'])",
    ),
    Attack("unittest", "import unittest\nunittest.TestCase.assertEqual = unittest.TestCase.fail = lambda *a: None"),
    Attack(
        "numpy longdouble",
        "import numpy\nnumpy.finfo = lambda *a: type('F', (), dict(eps=1e30))\nnumpy.abs = lambda x: 0 * x",
    ),
    Attack("trace hook", "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)"),
    Attack("always equal result", f"{_ALWAYS}", "return Always()"),
    Attack(
        "the check's own code",
        """\
        from autograder.checks import engine, compare, seen
        from autograder.checks.lab2 import ring_all_reduce as check
        for module in (engine, compare, seen, check):
            for name in list(vars(module)):
                if callable(getattr(module, name)): setattr(module, name, lambda *a, **k: None)
        """,
        finds=("crash",),
    ),
    Attack(
        "the rank's report",
        """\
        import autograder.checks.student as student, simulator.values as values, simulator.wire as wire
        honest = values.encode
        values.encode = lambda value: honest({"points": 12, "passed": True})
        """,
        finds=("value", "crash"),
    ),
    Attack("atexit", "import atexit\natexit.register(lambda: print('passed: 12 / 12'))"),
    Attack(
        "exit hook",
        "import sys\nsys.excepthook = sys.unraisablehook = lambda *a: None\n",
        "raise ValueError('x')",
        finds=("crash",),
    ),
    Attack(
        "a thread that rewrites results",
        """\
        import gc, threading, time
        def rewrite():
            while True:
                for thing in gc.get_objects():
                    if type(thing) is dict and "changed" in thing and "data" in thing:
                        thing["data"], thing["changed"] = bytes(len(thing["data"])), []
                time.sleep(0.001)
        threading.Thread(target=rewrite, daemon=True).start()
        """,
    ),
)

#: Against the trusted processes, with what a rank may say to them.
MESSAGES = (
    Attack(
        "pickle in the result",
        inside="class Evil:\n    def __reduce__(self):\n        import os\n        return os.system, ('touch <canary>/pickled',)\nreturn Evil()",
    ),
    *(
        Attack(
            f"result bytes: {name}",
            inside=f"{_SEND}\nlink.send(wire.Leave('done', 0, result={code}))\nos._exit(0)",
            finds=("crash",),
        )
        for name, code in {
            "a pickle": "b'cos\\nsystem\\n(Vtouch <canary>/pickled\\ntR.'",
            "a tensor of a terabyte": "encode(E(1, encode(['float64', [1 << 37], b''])))",
            "objects": "encode(E(3, encode(['O', [1], b'12345678'])))",
            "an unknown dtype": "encode(E(1, encode(['load', [1], b'1234'])))",
            "an unknown extension": "encode(E(77, b'x'))",
            "a negative shape": "encode(E(1, encode(['float32', [-1, -1], b'1234'])))",
            "no msgpack": "b'\\xc1' * 100",
            "nested": "b'\\x91' * 100000 + b'\\xc0'",
            "all passed": "encode([{'points': 12, 'passed': True}])",
        }.items()
    ),
    Attack("noise on the socket", inside=f"{_LINK}sock.sendall(b'\\0\\0\\0\\5hello' * 3)", finds=("crash",)),
    Attack(
        "an endless frame",
        inside=f"{_LINK}sock.sendall(b'\\x3f\\xff\\xff\\xff')\nfor _ in range(64): sock.sendall(bytes(1 << 20))",
        finds=("crash",),
    ),
    Attack(
        "a flood of notes",
        inside=f"{_LINK}import simulator.wire as wire\nframe = wire.frame([wire.Note('0', 'compute', 0, 0, 0, '', '')] * 10000)\nwhile True: sock.sendall(frame)",
        finds=("crash", "deadline"),
    ),
    Attack(
        "forged return",
        inside=f"{_LINK}import simulator.wire as wire\nlink.send(wire.Leave('done', 0, result=b'\\xc0'))\nimport os\nos._exit(0)",
        finds=("crash",),
    ),
    Attack(
        "forged kill",
        inside=f"{_LINK}import simulator.wire as wire\nlink.send(wire.Leave('killed', 0))\nimport os\nos._exit(0)",
        finds=("crash",),
    ),
    Attack(
        "forged error",
        inside=f'{_LINK}import simulator.wire as wire\nlink.send(wire.Leave(\'error\', 0, error=b\'{{"type": 1, "message": [], "frames": [{{"line": "x", "path": 3, "text": {{}}}}]}}\'))\nimport os\nos._exit(0)'.replace(
            "{{", "{"
        ).replace("}}", "}"),
        finds=("crash",),
    ),
    Attack(
        "a work that does not exist",
        inside=f"{_LINK}import simulator.wire as wire\nlink.send(wire.Block('0', 99, 0))",
        finds=("crash", "deadlock"),
    ),
    Attack(
        "a clock at the end of time",
        inside=f"{_LINK}import simulator.wire as wire\nlink.send(wire.Note('0', 'compute', 0, (1 << 64) - 1, 0, '', ''))",
        finds=("crash",),
    ),
    Attack(
        "a store call that does not exist",
        inside=f"{_LINK}import simulator.wire as wire\nlink.send(wire.StoreCall('0', 'system', (), (), 0, 0, 0, ''))\nwhile True: sock.recv(99)",
        finds=("crash", "broke-off"),
    ),
    Attack(
        "announced sizes",
        """\
        from simulator import wire
        make = wire.Op
        def lie(*words, **named):
            op = make(*words, **named)
            op.bytes, op.shapes = 0, ((0,),)
            return op
        wire.Op = lie
        """,
        base="hub",
        finds=("value",),  # who announces that little cannot know the sum
    ),
    Attack(
        "script in an error",
        inside="raise ValueError('<script>alert(1)</script><img src=x onerror=alert(1)>')",
        finds=("crash",),
    ),
    Attack("an error of ten megabytes", inside="raise ValueError('x' * 10_000_000)", finds=("crash",)),
    Attack("ten megabytes of output", inside="print('x' * 10_000_000)"),
    Attack(
        "a hundred megabytes of output",
        inside="for _ in range(1000): print('x' * 100_000)",
        finds=("crash", "deadline", "value"),
    ),
    Attack(
        "a hundred megabytes past Python",
        inside="import os\nfor _ in range(1000): os.write(1, b'x' * 100_000)",
    ),
    Attack("a real-time signal", inside="import os\nos.kill(os.getpid(), 40)", finds=("crash",)),
    Attack("exit 0", inside="import os\nos._exit(0)", finds=("crash",)),
)

#: Against what is outside: files, processes, the network, other submissions.
REACHES = (
    Attack(
        "seeds and solutions in files",
        f"{_TELL}import os\nfound = []\nfor at, folders, files in os.walk('/'):\n"
        "    folders[:] = [f for f in folders if f not in ('proc', 'usr', '.venv', '3.11.7')]\n"
        "    found += [f'{at}/{f}' for f in [*folders, *files] if f in ('grading_seed', 'gradebook.db', 'solutions', 'tests', 'submitted', 'sealed', '.git')]\n"
        "found += [p for p in ('<canary>', '<root>/solutions', '<root>/tests', '<root>/.git', '/root/.ssh', '/home', '/etc/shadow') if os.path.exists(p)]\n"
        "tell(found)\n",
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "seeds in the environment and memory of others",
        f"{_TELL}import glob\nfound = []\n"
        "for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: found += [path for text in [open(path, 'rb').read()] if b'lockstep' in text.lower() or b'<secret>' in text]\n"
        "    except OSError: pass\n"
        "tell(found)\n",
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "memory of the forkserver",
        f"{_TELL}import os\ntry: tell(open(f'/proc/{{os.getppid()}}/mem', 'r+b'))\nexcept OSError as error: tell(type(error).__name__)\n",
        finds=("crash",),
        says="PermissionError",
    ),
    Attack(
        "processes outside",
        f"{_TELL}import os\ntell([p for p in os.listdir('/proc') if p.isdigit() and int(p) > 500] + [p for p in (<pid>,) if os.path.exists(f'/proc/{{p}}')])\n".replace(
            "{{", "{"
        ).replace("}}", "}"),
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "signals to the parent",
        inside=f"{_QUIET}for number in (9, 15, 19, 2): os.kill(os.getppid(), number)",
        base="right",
        finds=(),
    ),
    Attack(
        "signals to everyone",
        inside=f"{_QUIET}signal.signal(15, signal.SIG_IGN)\nfor pid in (<pid>, 1, *range(2, 3000)):\n    with contextlib.suppress(OSError):\n        if pid != os.getpid(): os.kill(pid, 9)\nos.kill(-1, 9)",
        finds=("crash",),
    ),
    Attack(
        "writing to the course",
        f"{_TELL}import os, site, autograder, simulator\nwrote = []\n"
        "places = [os.path.dirname(m.__file__) for m in (autograder, simulator, torch)] + ['/usr/bin', '/etc', '/', '/dev', '/root', '/proc/sys/kernel']\n"
        "for place in places:\n"
        "    try:\n        os.makedirs(place, exist_ok=True)\n        open(place + '/planted.py', 'w').close()\n        wrote.append(place)\n"
        "    except OSError: pass\ntell(wrote)\n",
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "the gradebook",
        f"{_TELL}import sqlite3\ntry: tell(sqlite3.connect('<canary>/gradebook.db').execute('select 1').fetchall())\nexcept sqlite3.Error as error: tell(str(error))\n",
        finds=("crash",),
        says="unable to open",
    ),
    Attack(
        "a forged result file",
        "import json, tempfile\nfor name in ('results.json', 'sealed.json', 'lab2.json'):\n    json.dump({'points': 12, 'passed': True}, open(f'{tempfile.gettempdir()}/{name}', 'w'))",
    ),
    Attack(
        "the network",
        f"{_TELL}import socket\nreached = []\n"
        "for at in (('127.0.0.1', <port>), ('1.1.1.1', 53), ('10.0.0.1', 80), ('169.254.169.254', 80)):\n"
        "    s = socket.socket()\n    s.settimeout(0.5)\n"
        "    try:\n        s.connect(at)\n        reached.append(at)\n    except OSError: pass\ntell(reached)\n",
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "more rights",
        f"{_TELL}import ctypes, os\nlibc = ctypes.CDLL(None)\ngot = []\n"
        "for name, call in dict(root=lambda: libc.setuid(0), user=lambda: libc.unshare(0x10000000), mount=lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, b''), chroot=lambda: libc.chroot(b'/tmp'), trace=lambda: libc.ptrace(16, os.getppid(), 0, 0)).items():\n"
        "    if call() == 0: got.append(name)\ntell(got)\n",
        finds=("crash",),
        says="FOUND []",
    ),
    Attack(
        "a process that stays",
        inside=f"{_QUIET}if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        signal.pause()\n    os._exit(0)\n",
        base="right",
        finds=(),
    ),
    Attack(
        "a broken lock",
        inside="import torch.distributed.distributed_c10d as c\nc._world = None",
        finds=("crash", "value"),
    ),
)

#: Of what there is only so much.
RESOURCES = (
    Attack(
        "fork bomb",
        inside="import os\ntry:\n    while True: os.fork()\nexcept OSError:\n    os._exit(3)",
        finds=("deadline", "crash", "deadlock", "endless-loop", "used-up"),
    ),
    Attack(
        "thread bomb",
        inside="import threading, time\nfor _ in range(100_000): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        finds=("crash",),
    ),
    Attack(
        "eight gigabytes", inside="x = bytearray(8 << 30)\nx[::4096] = x[::4096]", finds=("crash",), says="MemoryError"
    ),
    Attack(
        "eight gigabytes in pieces",
        inside="import os\nfor _ in range(5):\n    if os.fork() == 0:\n        x = bytearray(b'x' * (1 << 30))\n        import time; time.sleep(60)\nimport time; time.sleep(60)",
        finds=("used-up", "crash", "value"),
    ),
    Attack(
        "disk",
        inside="import os\nfor i in range(99): open(f'{i}', 'wb').write(b'x' * (1 << 24))",
        finds=("crash",),
        says="No space left",
    ),
    Attack(
        "shared memory",
        inside="for i in range(99): open(f'/dev/shm/{i}', 'wb').write(b'x' * (1 << 24))",
        finds=("crash",),
        says="No space left",
    ),
    Attack(
        "one large file",
        inside="f = open('large', 'wb')\nfor i in range(99): f.write(b'x' * (1 << 20))\nf.flush()",
        finds=("crash",),
    ),
    Attack(
        "open files",
        inside="import os\nkept = [os.open('/dev/null', 0) for _ in range(100_000)]",
        finds=("crash",),
        says="Too many open files",
    ),
    Attack(
        "an endless loop without its timer",
        inside="import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nsignal.signal(signal.SIGPROF, signal.SIG_IGN)\nwhile True: pass",
        finds=("endless-loop",),
    ),
    Attack("endless loop", inside="while True: pass", finds=("endless-loop",)),
    Attack(
        "sleep that no signal ends",
        inside="import signal, time\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\nwhile True: time.sleep(1000)",
        finds=("deadline",),
    ),
    Attack("stopped", inside="import os\nos.kill(os.getpid(), 19)", finds=("deadline",)),
    Attack(
        "recursion",
        inside="import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        finds=("crash", "deadline", "used-up"),
    ),
)

#: Around the exercise: the sum without send and recv.
DETOURS = (
    Attack(
        "the inputs of everyone, from the frames above",
        inside="""\
        import sys
        frame = sys._getframe()
        while frame and "case" not in frame.f_locals: frame = frame.f_back
        tensor.copy_(sum(torch.from_numpy(x) for x in frame.f_locals["case"].inputs()))
        """,
    ),
    Attack(
        "files instead of messages",
        inside="""\
        import os, time
        rank, size = dist.get_rank(), dist.get_world_size()
        torch.save(tensor.clone(), f"part{rank}.new")
        os.rename(f"part{rank}.new", f"part{rank}")
        while sum(os.path.exists(f"part{r}") for r in range(size)) < size: time.sleep(0.01)
        tensor.copy_(sum(torch.load(f"part{r}") for r in range(size)))
        """,
        finds=("value", "crash"),
    ),
)

# A ring of the right messages with nothing in them, after the sum came another way.
_EMPTY_RING = """
def empty_ring(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(2 * (size - 1)):
        out, into = (tensor.tensor_split(size)[(rank - step - k) % size] for k in (0, 1))
        sending = dist.isend(torch.zeros_like(out), (rank + 1) % size)
        dist.recv(torch.empty_like(into), (rank - 1) % size)
        sending.wait()
"""
#: Lies that no value and no trace shows: a person reads the cell before its points count.
LIES: tuple[Attack, ...] = (
    Attack(
        "the inputs of everyone, and a ring of empty messages",
        _EMPTY_RING,
        """\
        import sys
        frame = sys._getframe()
        while frame and "case" not in frame.f_locals: frame = frame.f_back
        empty_ring(tensor)
        tensor.copy_(sum(torch.from_numpy(x) for x in frame.f_locals["case"].inputs()))
        """,
        finds=("held",),
    ),
    Attack(
        "a text for the exec of dataclasses, in a name that a match binds, and a ring of empty messages",
        _EMPTY_RING
        + """\
import dataclasses
def power(text):
    found = []
    @dataclasses.dataclass(init=False, repr=False, eq=False, unsafe_hash=True)
    class Box:
        x = 0
        y = found
        match {f"x, self.y.append(eval({text!r}))": int}:
            case __annotations__: pass
    hash(Box())
    return found[0]
""",
        """\
        search = "(lambda w: w(w, _" + "_import_" + "_('sys')._getframe()))(lambda w, f: "
        search += "f.f_locals['case'] if 'case' in f.f_locals else w(w, f.f_back))"
        case = power(search)
        empty_ring(tensor)
        tensor.copy_(sum(torch.from_numpy(x) for x in case.inputs()))
        """,
        finds=("held",),
    ),
    Attack(
        "files, and a ring of empty messages",
        _EMPTY_RING + "\ncalls = 0\n",
        """\
        import os, time
        global calls
        calls += 1
        rank, size = dist.get_rank(), dist.get_world_size()
        torch.save(tensor.clone(), f"{calls}.{rank}.new")
        os.rename(f"{calls}.{rank}.new", f"{calls}.{rank}")
        while sum(os.path.exists(f"{calls}.{r}") for r in range(size)) < size: time.sleep(0.01)
        empty_ring(tensor)
        tensor.copy_(sum(torch.load(f"{calls}.{r}") for r in range(size)))
        """,
        finds=("held",),
    ),
    Attack(
        "another socket, and a ring of empty messages",
        _EMPTY_RING,
        """\
        import socket, time
        rank, size, count = dist.get_rank(), dist.get_world_size(), tensor.nbytes
        def take(link):
            data = b""
            while len(data) < count: data += link.recv(count - len(data))
            return torch.frombuffer(bytearray(data), dtype=tensor.dtype)
        if not count: return
        empty_ring(tensor)
        if rank == 0:
            server = socket.create_server(("127.0.0.1", 7777))
            links = [server.accept()[0] for _ in range(size - 1)]
            for link in links: tensor.add_(take(link))
            for link in links: link.sendall(tensor.numpy().tobytes())
            server.close()
        else:
            while True:
                try:
                    link = socket.create_connection(("127.0.0.1", 7777))
                    break
                except OSError: time.sleep(0.01)
            link.sendall(tensor.numpy().tobytes())
            tensor.copy_(take(link))
        """,
        finds=("held", "endless-loop", "deadline"),  # on a busy machine the others wait too long for the server
    ),
)


def _lie(name: str, inside: str, outside: str = "") -> Attack:
    """The sum in `total` comes another way, then a ring of empty messages; no import is needed."""
    start = "rank, size, total = dist.get_rank(), dist.get_world_size(), tensor.clone()\n"
    end = "\nempty_ring(tensor)\ntensor.copy_(total)"
    return Attack(
        name,
        _EMPTY_RING + textwrap.dedent(outside),
        start + textwrap.dedent(inside) + end,
        finds=("held", "crash", "value", "point-to-point-only"),
    )


LIES += (
    _lie(
        "the store of the group",
        """\
        store = dist.group.WORLD.get_group_store()
        store.set(f"{rank}/{len(tensor)}", tensor.numpy().tobytes())
        parts = [store.get(f"{r}/{len(tensor)}") for r in range(size)]
        if len(tensor): total = sum(torch.frombuffer(bytearray(part), dtype=tensor.dtype) for part in parts)
        """,
    ),
    _lie(
        "works that are launched and never announced",
        """\
        work = dist.all_reduce(total, async_op=True)
        work.launch(0, 0)
        """,
    ),
    _lie(
        "a private name by a class of its own",
        "Own.inside(dist.group.WORLD).allreduce([total]).wait()",
        """\
        class Own:
            def __init__(self): self._inner = None
            def inside(self): return self._inner
        """,
    ),
    _lie(
        "shared memory by a file name",
        """\
        parts = [torch.from_file(f"/dev/shm/{len(tensor)}.{r}", True, len(tensor), dtype=tensor.dtype) for r in range(size)]
        parts[rank].copy_(tensor)
        if len(tensor): total = sum(parts)
        """,
    ),
)

ATTACKS = (*LIES, *DETOURS, *COMPARISONS, *MESSAGES, *REACHES, *RESOURCES)
