"""One event value, many sinks.

events      what can happen
logs        events and records as JSON or text; redaction
background  events handed on by a thread of their own
metrics     events as Prometheus metrics
scrapes     an address that answers scrapes and nothing else
"""
