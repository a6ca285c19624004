"""What everybody runs, by name: `python tasks.py lint types`, in the virtual environment that is to be used.

Arguments after `--` go to the last task: `python tasks.py test -- -k cost`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent
PARALLEL = "-n 2 --dist worksteal"

TASKS: dict[str, tuple[str, ...]] = {
    "test": (f"pytest -q {PARALLEL}",),
    "further": (f"pytest -q {PARALLEL} --skipped",),
    "slow": (f"pytest -q {PARALLEL} -m slow --cases 24",),
    "all": (f"pytest -q {PARALLEL} -m slow --share 1",),
    "lint": ("ruff check", "ruff format --check"),
    "types": ("mypy",),
    "fix": ("ruff check --fix", "ruff format"),
    "golden": ("pytest -q tests/derivatives/test_golden.py --update-golden",),
    "playground": ("python playground/build.py",),
    "editors": ("python editors/textmate.py",),
    "check": (f"pytest -q {PARALLEL}", "ruff check", "ruff format --check", "mypy"),
}
"""The commands of each task, one after the other."""


def command(line: str) -> list[str]:
    """The parts of a command, its program from this environment."""
    program, *rest = shlex.split(line)
    return [sys.executable, *([] if program == "python" else ["-m", program]), *rest]


def main(arguments: list[str]) -> int:
    """Run the tasks of these names, up to the first that fails; return its exit status."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    names, further = arguments[:end], arguments[end + 1 :]
    if not names or not set(names) <= TASKS.keys():
        print(__doc__, *(f"  {name:<10}{' && '.join(lines)}" for name, lines in TASKS.items()), sep="\n")
        return 2
    for name in names:
        for line in TASKS[name]:
            print(f"== {line}", flush=True)
            extra = further if name == names[-1] else []
            status = subprocess.run([*command(line), *extra], cwd=ROOT, check=False).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
