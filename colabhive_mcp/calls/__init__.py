"""One tool call: from its arguments to its result.

arguments   mended where clients bend them, checked against the tool's schema
terms       what a call of one tool is held to
invocation  invoke, poll, wait, give up: progress that ends in an outcome
content     an outcome as the body of a result, within the limits
blocks      a gateway's result as content blocks, by its shape
media       images, sounds and links as blocks
checks      whether a block that the gateway made may go to a client
artifacts   what is too large for a message, as files
lookup      get_invocation_result
directory   search_tools, describe_tool and call_tool, where there are too many tools to list
"""
