"""Skylines over real devices: agents and a coordinator that talk over MQTT 5.

An agent is a light import: no NumPy, no Numba, no Spark. It needs ``paho-mqtt`` (the extra ``edge``).
"""
