"""The benchmark: how fast the bridge is over stdio and as a relay, beside what the machine can do at all.

``python -m bench`` starts a gateway of its own, runs the bridge as a client would, and prints each figure with its
floor from the same run; ``python -m bench stdio`` and ``python -m bench relay`` make one half of them. It knows the
bridge only by its command, its environment and what it writes: nothing is imported from it.
"""
