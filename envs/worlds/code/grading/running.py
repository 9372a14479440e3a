"""List the processes that submitted code, or the agent, left running in a sandbox."""

RUNNING = """
mine=$$; found=""
for process in /proc/[0-9]*; do
  number=${process#/proc/}
  if [ "$number" != 1 ] && [ "$number" != "$mine" ] && [ -O "$process" ]; then
    read -r name < "$process/comm" 2>/dev/null && found="$found
 $name"
  fi
done
"""
"""Shell: set ``found`` to one line per process of the user: a space and the name of the process, which may be blank."""
PRINT_FOUND = 'printf %s "$found"'
LIST = ["sh", "-c", f"{RUNNING}{PRINT_FOUND}"]
LIST_TIMEOUT_S = 1.0
NAMELESS = "(no name)"
"""Stands for the name of a process that consists of blanks."""
MAX_CHARS = 150


def left_running(found: bytes) -> str:
    """Return the names in ``found``, separated by blanks; empty if no process is left."""
    names = [name.strip() or NAMELESS for name in found.decode(errors="replace").split("\n")[1:]]
    return " ".join(names)[:MAX_CHARS]
