"""The tests. ``CONTRIBUTING.md`` has which one goes where; what several share is in :mod:`tests.support`."""
