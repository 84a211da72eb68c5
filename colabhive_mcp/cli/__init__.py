"""People and scripts: parse → build → run → exit code. The only room that prints.

exits      whatever happens → one sentence and an exit code
assembly   settings → log, gateway client, bridge
server     the stdio server, without click: it starts in the time that importing click takes
commands   the command line itself, each command loaded when it is called
options    the settings' table → flags, and a help page that stays short
terminal   tables, marks, sizes and progress, for people and for pipes
tools      tools, call
results    the result of a call as text, JSON and files
checks     test, config, version
trial      the steps of the test
relay      serve
run        gateway, demo
listening  a WSGI application on waitress, in a thread of its own
hosting    the local gateway: what is started, and in which order it stops
demo       the scenes of the demo
peer       the demo's own client
clients    ready configurations of known clients
manifest   the commands below `manifest`
sources    where they read a manifest
sheets     manifest show
pins       manifest pin
review     manifest validate, manifest lint
reports    findings as text, JSON and SARIF
positions  where a JSON pointer leads in a text
changes    manifest diff
"""
