"""The official conformance suite against the real relay: `python -m conformance [NAME …]`.

| module | what it owns |
| --- | --- |
| `tools` | the tools that the scenarios call: their manifests and what each does |
| `proxy` | the key, which the suite does not send |
| `stage` | the gateway with those tools, and relays in front of it |
| `suite` | the suite's package, its command line, and what it says of each scenario |
| `baseline.yml` | what is expected to fail, each entry with its reason |
"""
