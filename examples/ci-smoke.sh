#!/usr/bin/env sh
# A check for a CI job: is the gateway there, is the key good, and does the tool that we depend on answer?
# Needs COLABHIVE_API_KEY (and COLABHIVE_API_URL where it is not the default) in the job's environment.
set -eu

colabhive-mcp test
colabhive-mcp tools --json > tools.json
colabhive-mcp call "${SMOKE_TOOL:-echo}" --json "${SMOKE_ARGUMENTS:-{\"text\": \"still here\"\}}" --output json > answer.json
echo "The gateway answers."
