"""Check certificates, each in a process of its own, within a budget.

Exit status: 0 if all was decided for all sizes, else the first that applies: 1 if one is refused, 2 for a wrong command
line, 4 if one is too large to decide within the budget, or of one something was neither decided nor sampled, 3 if of
one something was only sampled (0 with `--accept-sampled`).
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from .budget import TooLarge
from .certificate import check
from .trees import Refused

DECIDED, REFUSED, USAGE, SAMPLED, TOO_LARGE = range(5)
_GRACE = 10
"""Seconds beyond the budget after which a process is ended."""


def main(arguments: list[str]) -> int:
    """Check the certificates in some files."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("certificates", nargs="+", metavar="CERTIFICATE.json")
    parser.add_argument("--seconds", type=float, default=60, help="time for each certificate (60)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MB", help="memory for each certificate (4096)")
    parser.add_argument("--accept-sampled", action="store_true", help="end with 0 where something was only sampled")
    parser.add_argument(
        "--carry", action="store_true", help="write how costs are carried into the certificate, if it is not refused"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.here:
        (path,) = asked.certificates
        return _here(path, asked.seconds, asked.memory, asked.carry)
    found = [_apart(path, asked.seconds, asked.memory, asked.carry) for path in asked.certificates]
    if asked.accept_sampled:
        found = [DECIDED if status == SAMPLED else status for status in found]
    return next((status for status in (REFUSED, TOO_LARGE, SAMPLED) if status in found), DECIDED)


def _apart(path: str, seconds: float, memory: int, carry: bool) -> int:
    """Check one certificate in another process."""
    command = [sys.executable, "-m", str(__package__), "--here", f"--seconds={seconds}", f"--memory={memory}", path]
    command += ["--carry"] * carry
    try:
        status = subprocess.run(command, timeout=seconds + _GRACE, check=False).returncode
    except subprocess.TimeoutExpired:
        status = -1
    if status not in (DECIDED, REFUSED, SAMPLED, TOO_LARGE):
        print(f"{path}: too large to decide: ended at {seconds:g} seconds or {memory} MB", file=sys.stderr)
        return TOO_LARGE
    return status


def _here(path: str, seconds: float, memory: int, carry: bool) -> int:
    """Check one certificate in this process, whose memory is limited."""
    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    try:
        text = Path(path).read_text(encoding="utf-8")
        report = check(text, seconds)
        if carry:
            held = {**json.loads(text), "transports": report.transports}
            Path(path).write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"{path}: can't be read or written: {error.strerror}", file=sys.stderr)
        return REFUSED
    except (TooLarge, MemoryError) as error:
        print(f"{path}: too large to decide: {error}", file=sys.stderr)
        return TOO_LARGE
    except (Refused, UnicodeDecodeError) as error:
        print(f"{path}: refused: {error}", file=sys.stderr)
        return REFUSED
    except Exception as error:  # whatever a file holds, it is not accepted
        print(f"{path}: refused: it can't be followed ({type(error).__name__}: {error})", file=sys.stderr)
        return REFUSED
    print(report)
    return DECIDED if report.decided else SAMPLED if report.sampled else TOO_LARGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
