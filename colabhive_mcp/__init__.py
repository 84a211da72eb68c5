"""colabhive-mcp: the bridge between AI agents and the ColabHive model platform.

The rooms, top to bottom; imports point down:

- ``cli``: people and scripts. Parse, build, run, exit code; the only room that prints.
- ``transports``: bytes ↔ messages; threads live here.
- ``bridge``: one tenant's tools behind the protocol's Toolbox interface.
- ``offer``: what one tenant's callers are offered, and which copy of a tool their calls are held to.
- ``calls``: one tool call: arguments, invocation, content.
- ``manifest``: the tool contract: model, cache, filters, names, schemas, the list that a client sees.
- ``gateway``: the client of the Builder Gateway.
- ``protocol``: MCP itself: no I/O, no thread, no clock, no log.
- ``config``: the settings and where each came from.
- ``kinds``: how the values of settings are written.
- ``telemetry``: one event value, many sinks.
- ``errors``: one root; whose fault, exit code.
- ``localgateway``: a Builder Gateway of our own, the other side of the wire.
"""

__version__ = "0.1.0"
