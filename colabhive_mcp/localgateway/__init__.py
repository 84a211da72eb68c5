"""A Builder Gateway of our own, for demos, tests and self-hosting: the other side of the wire.

It shares no code with the client side, so that each holds the other to the contract. The way of a request:

    app         the REST contract as a WSGI application
    pages       the manifest as encoded pages, each with its ETag
    faults      what goes wrong on request, in front of it
    connection  the ways to answer badly that WSGI has no words for
    wire        requests, responses, refusals and JSON as values
    forms       forms of several parts, and the tables in them
    checks      is this input what the schema asks for
    runtime     what runs the invocations: queue, workers, cold and warm
    actions     what each action computes
    chat        the words of the chat action, from an OpenAI-compatible server or from a rule
    media       pictures and sound as bytes
    catalogue   the endpoints that a fresh gateway is seeded with
    records     what the store hands out, as values
    manifests   rows to manifests, and registrations to rows
    store       SQLite: the source of truth
"""
