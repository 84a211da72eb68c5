"""Real MCP clients against the real server and the real local gateway: `python -m clients [NAME …]`.

| module | what it owns |
| --- | --- |
| `roster` | the table of clients: which SDK, how it negotiates, which revision must come of it |
| `toolchains` | the SDKs, each in a folder of its own under `.clients/` |
| `stage` | the gateway process, and what a client must know to start a server |
| `watched` | the wrapper under which each server runs: its exit code and how long its exit took |
| `scenario` | the session that every Python SDK plays, step by step |
| `python_sdk_1`, `python_sdk_2`, `typescript.mjs` | one driver an SDK; `typescript.mjs` has the same steps |
| `inspector` | the Inspector's command line |
| `report` | steps, the lines they are written in, and the count |
"""
