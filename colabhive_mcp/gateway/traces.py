"""The headers of W3C Trace Context, level 1: the only ones of a caller that go on to the gateway."""

from __future__ import annotations

import re
from collections.abc import Mapping

PARENT, STATE = "traceparent", "tracestate"
LONGEST_STATE = 512
_PARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(rf"[ -~]{{1,{LONGEST_STATE}}}")


def read_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Of *headers*, by lower-case names, those of a trace; none where it is not valid, since it then means nothing."""
    parent, state = headers.get(PARENT, ""), headers.get(STATE, "")
    if not _PARENT.fullmatch(parent):
        return {}
    return {PARENT: parent, STATE: state} if _STATE.fullmatch(state) else {PARENT: parent}
