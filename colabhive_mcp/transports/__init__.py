"""Bytes ↔ messages; threads live here.

Both transports:
identity  who this server is to its clients
frames    a message as bytes, or the error in its place

stdio, one client:
stdio     the reading loop, the exchanges, the way out
pipes     lines in, lines out; the one writer
workers   daemon threads, a fixed number at a time
late      a toolbox that is built when it is first needed

HTTP, many clients:
wsgi       the relay: routes, and what every request goes through
endpoint   what is posted to MCP, by either era, and the stream of notices
intake     one request as it is read: headers, key, trace
headers    the headers that repeat parts of a message, held against it
origins    which names are answered to, and which web pages may ask
tenants    API key → tenant: the places, and who was refused
gate       how many requests may be at work
rates      how many a key may make
presence   whether the client of a request is still there
readiness  whether the gateway can be reached
replies    JSON, streams, refusals, as HTTP has them
streams    messages as server-sent events
"""
