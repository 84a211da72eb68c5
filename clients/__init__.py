"""Real MCP clients against the real server and the real local gateway: `python -m clients [WORD …]`.

Each client comes to the server by one way: it starts the server itself (`stdio`), or it asks a relay (`http`), or one
behind nginx (`nginx`). The steps are the same.

| module | what it owns |
| --- | --- |
| `roster` | the table of clients: which SDK, how it negotiates, which revision must come of it, over which ways |
| `toolchains` | the SDKs, each in a folder of its own under `.clients/` |
| `stage` | the ways, what a client must know to go by one, and what its servers left behind |
| `servers` | the gateway's process and the relay's |
| `watched` | the wrapper under which each server runs: its exit code and how long its exit took |
| `cues` | what a client may have happen: a tool is published, its relay is restarted |
| `scenario` | the session that every SDK for Python plays, step by step |
| `python_sdk_1`, `python_sdk_2`, `fastmcp_client` | one driver an SDK |
| `typescript.mjs` | the same steps for both SDKs for TypeScript |
| `inspector` | the Inspector's command line |
| `report` | steps, the lines they are written in, and the count |
"""
