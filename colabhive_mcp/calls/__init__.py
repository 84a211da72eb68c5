"""One tool call: from its arguments to its result.

arguments   mended where clients bend them, checked against the tool's schema
invocation  invoke, poll, wait, give up: progress that ends in an outcome
content     an outcome as the body of a result, within the limits
blocks      a gateway's result as content blocks, by its shape
media       images, sounds and links as blocks
checks      whether a block that the gateway made may go to a client
lookup      get_invocation_result, the one tool of the bridge itself
"""
