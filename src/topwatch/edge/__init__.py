"""Skylines over many devices: the protocol, and its transport over MQTT."""
