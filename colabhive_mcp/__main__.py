"""``python -m colabhive_mcp``: the stdio server when nothing else is asked for.

Without arguments click is not even imported: a client waits for this start.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run what the command line asks for and exit with its code."""
    if len(sys.argv) == 1:
        from colabhive_mcp.cli.exits import leave_at_signals  # noqa: PLC0415 - before all that takes time

        leave_at_signals()
        from colabhive_mcp.cli.server import run_alone  # noqa: PLC0415 - the way without click

        sys.exit(run_alone())
    from colabhive_mcp.cli.exits import run_guarded  # noqa: PLC0415 - without click, which may be broken

    sys.exit(run_guarded(_run_arguments))


def _run_arguments() -> int:
    from colabhive_mcp.cli.commands import run_arguments  # noqa: PLC0415 - the way with click

    return run_arguments()


if __name__ == "__main__":
    main()
