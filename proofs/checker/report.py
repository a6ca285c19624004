"""What was established about a certificate, the weakest part first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

DECIDED = "decided for all sizes"
SAMPLED = "only sampled"
OPEN = "neither decided nor sampled"


@dataclass(frozen=True)
class Finding:
    """One question and how it was answered: for all sizes, or only at the sizes that were tried, and why; or not at all
    where no values are available, as for external functions."""

    what: str
    decided: bool
    how: str = ""
    sampled: bool = True

    def __str__(self) -> str:
        answer = DECIDED if self.decided else SAMPLED if self.sampled else OPEN
        return f"{self.what}: {answer}{f', {self.how}' if self.how else ''}"


@dataclass(frozen=True)
class Report:
    """What was established: the findings, the assumptions, and how much was tried besides."""

    program: str
    bound: Fraction
    findings: tuple[Finding, ...]
    assumptions: tuple[str, ...]
    steps: int
    sets: Mapping[str, int]
    samples: int
    extracted: int
    transports: Mapping[str, list[Any]] = field(default_factory=dict)
    """How charges were carried into others, for use in a certificate."""
    searched: tuple[str, ...] = ()
    """The comparisons for which the certificate's own steps did not suffice."""

    @property
    def decided(self) -> bool:
        """Whether all that is claimed was decided for all sizes."""
        return all(finding.decided for finding in self.findings)

    @property
    def sampled(self) -> bool:
        """Whether everything undecided was at least sampled."""
        return all(finding.sampled for finding in self.open)

    @property
    def open(self) -> list[Finding]:
        """The findings that were not decided."""
        return [finding for finding in self.findings if not finding.decided]

    def __str__(self) -> str:
        claim = f"the adjoint is right and costs at most {self.bound} times the program, inputs and outputs counted"
        if self.decided:
            first = f"{self.program}: {DECIDED} from 1 on: {claim}"
        else:
            what = "; ".join(finding.what for finding in self.open)
            how = SAMPLED if self.sampled else "nor sampled"
            first = f"{self.program}: NOT decided for all sizes, {how}: {what}\n  claimed: {claim}"
        sets = ", ".join(f"{many} {how}" for how, many in sorted(self.sets.items()))
        lines = [first, *(f"  assuming: {x}" for x in self.assumptions), *(f"  {finding}" for finding in self.findings)]
        if self.steps:
            lines.append(f"  {self.steps} steps are instances of their rules; sets compared: {sets or 'none'}")
        if self.samples:
            lines.append(f"  no counterexample at {self.samples} choices of sizes and data")
        else:
            lines.append("  no values at small sizes: functions are not evaluated here, or it takes too long")
        if self.searched:
            lines.append(
                f"  searched for, as the file does not tell: how costs are carried, of {', '.join(self.searched)}"
            )
        if self.extracted:
            lines.append(f"  the adjoint extracted from the proofs agrees at {self.extracted} of them")
        return "\n".join(lines)
