"""Real servers for tests, each started on a loopback port and stopped at the end."""
