"""People and scripts: parse → build → run → exit code. The only room that prints.

exits      whatever happens → one sentence and an exit code
assembly   settings → log, gateway client, bridge, server
server     the stdio server, without click: it starts in the time that importing click takes
options    the settings' table → flags, and a help page that stays short
commands   the command line itself, each command loaded when it is called
terminal   tables, marks and progress, for people and for pipes
run        gateway and demo
demo       what the demo tells
tools      tools, call
checks     test, config, version
"""
