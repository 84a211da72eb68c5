"""The client of the Builder Gateway. It knows HTTP, and neither MCP nor the manifest.

client      one key's access to one gateway; the home of requests
wire        one question and its answer over a pool of connections
questions   what is asked: paths, bodies, how safe a repeat is
operations  an endpoint block and arguments → a request
endpoints   an endpoint block, checked
parts       a file argument → its content, or the path of a file
uploads     the files of this machine that may be sent
values      a single value as text
retries     when to ask again, and how long to wait before
answers     bytes → JSON or text
pages       a manifest of several pages as one
problems    a status and its body → an error
faults      what went wrong with a connection, in plain words
plaintext   foreign text made fit for a message
guard       ends the exchanges that nobody waits for
traces      the headers of a caller's trace
options     where the gateway is, and how far to trust it
trust       certificates → one TLS context
"""
