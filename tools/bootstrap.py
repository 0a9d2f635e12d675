"""What `make` calls first: checks the Python that runs it, then hands over to tools/lockstep_setup.

Written so that every Python since 3.6 can parse it: one that is too old must get to its sentence, not to a syntax
error. Uses the standard library only, because nothing is installed yet.
"""

import os
import shutil
import sys

OLDEST = (3, 11)
TRY_INSTEAD = ["python3.13", "python3.12", "python3.11"]


def main() -> int:
    """Run tools/lockstep_setup with this Python, or with a newer one that is on PATH, or say what to install."""
    version = tuple(sys.version_info[:2])
    if version >= OLDEST:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from lockstep_setup.main import main as setup_main

        return setup_main(sys.argv[1:])
    found = "{}.{}".format(*version)
    here = os.path.abspath(__file__)
    for name in TRY_INSTEAD:
        newer = shutil.which(name)
        if newer:
            print(f"lockstep: {sys.executable} is Python {found}, too old; using {newer} instead.")
            sys.stdout.flush()
            os.execv(newer, [newer, here, *sys.argv[1:]])
    target = sys.argv[1] if len(sys.argv) > 1 else "start"
    sys.stderr.write(
        f"lockstep: {sys.executable} is Python {found}, and the course needs Python 3.11 or newer. "
        f"Install one, then run: make {target} PYTHON=python3.11\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
