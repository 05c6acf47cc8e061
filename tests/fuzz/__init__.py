"""Random cases against the oracle and against the promise that nothing but our own errors is raised.

``make fuzz`` runs it (see CONTRIBUTING.md); ``test_targets.py`` runs a few cases of each target with every
``make test``. A case is made from (target, seed, number), is plain data that JSON can hold, and is run in a process of
its own kind, so that a crash or a hang is a failure like any other.

Why not Hypothesis, which ``tests/unit/monitor/test_state_machine.py`` uses: it shrinks in the process in which the case
has failed, which a segmentation fault ends, and its runs are bounded by examples and not by time.
"""
