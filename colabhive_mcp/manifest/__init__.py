"""The tool contract: what the gateway says of its tools, and what clients are shown of it.

model         Manifest and Tool, frozen, checked where they are made
cache         the current manifest: fresh, checked, or the last good copy
filters       which tools are offered, and why the others are not
names         slugs and the names that every client takes
adapter       a tool as an MCP tool definition, shaped for a revision
inventory     what one client sees: the tools offered, and their encoded lists
schemas       checkers of values, by jsonschema, with words for people and models
keywords      the library's keywords within a limit of time
checked_form  a schema as the library checks by it
client_form   a schema as clients are shown it
styles        the tables of what is rewritten in a form, each with its reason
rewriting     one rewriting of a document by such a table
references    which references lead in a circle, and their names
document      a schema read whole: every reference resolved, nothing fetched
dialects      what each dialect of JSON Schema has, as one table
patterns      ECMAScript's regular expressions in Python's terms, bounded
wording       values and places in a sentence
"""
