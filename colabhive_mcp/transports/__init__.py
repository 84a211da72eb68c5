"""Bytes ↔ messages; threads live here.

stdio     the reading loop, the exchanges, the way out
pipes     lines in, lines out; the one writer
workers   daemon threads, a fixed number at a time
late      a toolbox that is built when it is first needed
identity  who this server is to its clients, on every transport
"""
