"""MCP itself: no I/O, no thread, no clock, no log.

revisions  the table of revisions and what each one has
messages   JSON-RPC messages, and bytes ↔ messages
eras       which era a request is of, and who asks
toolbox    the interface to the tools: who asks, and what is answered
server     method → answer
"""
