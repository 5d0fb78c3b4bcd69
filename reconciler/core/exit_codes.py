"""The exit codes that a pod ends with to tell a Job more than success or failure.

The supervisor in the pod, and what clones for it, give them; the policies of Job and JobSet act on them, and observing
reads them.
"""

from __future__ import annotations

TOLD_TO_STOP = 217
PEER_LOST = 218
"""Another node of the run was being stopped when the command failed."""
SETUP_FAILED = 219
RUNTIME_LOST = 255
"""What container runtimes report for a container that a reboot took."""
NOT_REACHED = 75
"""What a clone ends with when its host can't be reached: EX_TEMPFAIL of sysexits.h."""

CLONE_INTERRUPTED = (NOT_REACHED, TOLD_TO_STOP, RUNTIME_LOST)
"""Exit codes of a clone that are no evidence against it. Not 137, with which one ends whose memory is too small."""

PASSED_ON_AS_1 = (TOLD_TO_STOP, PEER_LOST, SETUP_FAILED, RUNTIME_LOST)
"""Exit codes that the supervisor never passes on from a command, so that each has one meaning only."""
