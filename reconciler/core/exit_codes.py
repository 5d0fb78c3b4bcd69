"""The exit codes that a pod ends with to tell a Job more than success or failure.

The supervisor in the pod gives them, the policies of Job and JobSet act on them, and observing reads them.
"""

from __future__ import annotations

TOLD_TO_STOP = 217
PEER_LOST = 218
"""Another node of the run was being stopped when the command failed."""
SETUP_FAILED = 219
RUNTIME_LOST = 255
"""What container runtimes report for a container that a reboot took."""

PASSED_ON_AS_1 = (TOLD_TO_STOP, PEER_LOST, SETUP_FAILED, RUNTIME_LOST)
"""Exit codes that the supervisor never passes on from a command, so that each has one meaning only."""
