"""The one boundary of the command line: whatever happens becomes a sentence on stderr and an exit code.

Knows the errors and nothing of what is run. A traceback is for our own faults alone, and only where debugging was asked
for. It must not import click: the stdio server starts without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from colabhive_mcp.errors import EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, BridgeError, BrokenInstallation, ClientError

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def run_guarded(run: Callable[[], int]) -> int:
    """What *run* answers, or the exit code of what it raised, told in one sentence."""
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return next(handle(error) for kind, handle in _HANDLERS if isinstance(error, kind))
    return code


def leave_at_signals() -> None:
    """From here on SIGINT and SIGTERM end the process at once and well, in the middle of whatever it does.

    A client may have seen enough before the server has started.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os._exit(EXIT_OK))


def warn(sentence: str) -> None:
    """Tell an operator something on stderr."""
    _say(f"Warning: {sentence}")


def _fail(sentence: str, code: int) -> int:
    _say(f"Error: {sentence}")
    return code


def _say(line: str) -> None:
    """One line on stderr; where there is none any more, nobody is left to tell."""
    if sys.stderr is not None:  # print would take stdout for it
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def _leave_pipe(error: Any) -> int:
    """The reader of stdout has seen enough, which is no failure."""
    _discard_output()
    return EXIT_OK


def _fail_outside(error: Any) -> int:
    """The machine would not do what has to be done, in its own words."""
    _discard_output()
    return _fail(f"{error}.", EXIT_INTERNAL)


def _discard_output() -> None:
    """Python's own flush at exit must not complain about an output that takes nothing any more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _fail_internally(error: Any) -> int:
    """A fault of ours; where it is, only for somebody who debugs."""
    if any(word.endswith("debug") for word in sys.argv[1:]):
        import traceback  # noqa: PLC0415 - only for a fault of ours

        from colabhive_mcp.telemetry.logs import Redaction  # noqa: PLC0415 - likewise

        _say(Redaction()("".join(traceback.format_exception(error))))
    name = type(error).__name__
    return _fail(f"This is a fault of colabhive-mcp itself ({name}); --log-level debug shows where.", EXIT_INTERNAL)


_HANDLERS: tuple[tuple[type[BaseException], Callable[[Any], int]], ...] = (
    (KeyboardInterrupt, lambda error: EXIT_INTERRUPTED),
    (BrokenPipeError, _leave_pipe),
    (ClientError, lambda error: _fail(error.message, EXIT_USAGE)),
    (BridgeError, lambda error: _fail(error.message, error.exit_code)),
    (OSError, _fail_outside),
    (ImportError, lambda error: _fail(BrokenInstallation(error).message, EXIT_INTERNAL)),
    (Exception, _fail_internally),
)
