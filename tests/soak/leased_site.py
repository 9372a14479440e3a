"""``LeasedSite-v0``: the text site, whose episodes hold a sandbox each and run a command in it per turn.

The tasks are those of ``turnwise/TextSite-v0``, so a policy learns them within minutes; a killed sandbox ends its
episode with an ``env_error``.
"""

from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs
from turnwise.envs.worlds.tiny.text import TextSiteEnv
from turnwise.sandbox import SandboxLease, SandboxSpec, lease

SPEC = SandboxSpec(memory_mib=64, disk_mib=8, pids=32, inodes=512, read_mib=1, output_kib=16, trusted=True)
TIMEOUT_S = 10.0


class LeasedSiteEnv(TextSiteEnv):
    """The text site in a sandbox. Raises SandboxError if no sandbox can be leased, or it is lost."""

    sandboxed = True
    sandbox_memory_mib = SPEC.memory_mib
    restorable = False
    thread_bound = True

    def __init__(self, family: str = "mix") -> None:
        super().__init__(family)
        self._box: SandboxLease | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance, and lease a sandbox for it."""
        self.close()
        started = super().reset(seed=seed, options=options)
        self._box = lease(SPEC, timeout_s=TIMEOUT_S)
        return started

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action's text, after a command in the sandbox."""
        assert self._box is not None
        done = self._box.exec(["sh", "-c", 'echo "$1"', "sh", action], timeout_s=TIMEOUT_S)
        assert done.stdout.decode().rstrip("\n") == action.rstrip("\n")
        return super().step(action)

    def close(self) -> None:
        """Release the sandbox."""
        box, self._box = self._box, None
        if box is not None:
            box.release()


gymnasium.register("LeasedSite-v0", entry_point=f"{__name__}:LeasedSiteEnv", disable_env_checker=True)
