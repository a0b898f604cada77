"""Bytes ⇄ messages, without any input or output of its own."""
