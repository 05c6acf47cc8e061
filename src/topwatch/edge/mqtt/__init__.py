"""Skylines over real devices: agents and a coordinator that talk over MQTT 5."""
