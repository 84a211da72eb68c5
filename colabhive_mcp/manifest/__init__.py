"""The tool contract: what the gateway says of its tools, and what clients are shown of it.

The manifest at hand:

model          Manifest and Tool, frozen, checked where they are made
cache          the current manifest: fresh, checked, or the last good copy
pins           a manifest that is frozen, and how far it is behind

What a client sees of it:

filters        which tools are offered, and why the others are not
names          slugs and the names that every client takes
profiles       what known clients need, as one table
adapter        a tool as an MCP tool definition, shaped for a revision
inventory      what one client sees: the tools offered, and their encoded lists
views          an inventory for each profile
queries        what is asked of a search, and what comes of it
search         tools found by words and by what they state
resources      manifests as MCP resources

Schemas:

schemas        checkers of values, by jsonschema, with words for people and models
keywords       the library's keywords within a limit of time
checked_form   a schema as the library checks by it
client_form    a schema as clients are shown it
headers        arguments that clients repeat in HTTP headers
plain          schemas that every client takes as they are
styles         the tables of what is rewritten in a form, each with its reason
rewriting      one rewriting of a document by such a table
references     which references lead in a circle, and their names
document       a schema read whole: every reference resolved, nothing fetched
dialects       what each dialect of JSON Schema has, as one table
patterns       ECMAScript's regular expressions in Python's terms, bounded
nesting        where a value is nested too deep, or holds what JSON cannot
wording        values and places in a sentence

The contract that authors are held to:

canonical      mcp-manifest.schema.json, and the definitions in it that tools share
contract       what that schema and a tool's own schemas say of a manifest, as findings
fields         a manifest's fields held against that schema
rules          the table of the contract's rules
findings       what is wrong, how bad, where, and how to mend it
authoring      the table of authoring rules, and what contradicts itself
curation       authoring rules: what agents learn from a manifest
reception      authoring rules: how clients and models take it
drafts         a manifest as its authoring rules see it

What has changed:

changes        two manifests: the tools that changed, and whether each version says so
compatibility  two versions of a schema: what changed for those who send or get values
inclusion      whether every value of one schema fits another, and where it may not
facts          what is certain of every value that fits several schemas at once
semver         versions by SemVer 2.0.0, and the steps between them
"""
