"""The fault storm: real workers are killed, stopped and reloaded under load, and every call is held to its promise."""
