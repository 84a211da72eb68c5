"""One event value, many sinks.

events  what can happen
logs    events and records as JSON or text; redaction
"""
