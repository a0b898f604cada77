"""The right answer to each token. Workers and callers ask the same functions; nobody else knows a token's answer."""

from __future__ import annotations

import hashlib

__all__ = ["answer", "blob", "chunks", "pause_s"]

_BLOB_BYTES = 96 * 1024
_MAX_CHUNKS = 40


def answer(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:20]


def blob(token: str) -> bytes:
    """Return bytes that differ from token to token, too many for one read of a socket."""
    return hashlib.sha256(token.encode()).digest() * (_BLOB_BYTES // 32)


def chunks(token: str) -> list[str]:
    """Return what a stream of the token yields: 3 to 42 texts, each of its own."""
    count = 3 + _number(token) % _MAX_CHUNKS
    return [answer(f"{token}/{index}") for index in range(count)]


def pause_s(token: str) -> float:
    """Return how long work on the token takes: up to 8 ms."""
    return _number(token) % 9 / 1000


def _number(token: str) -> int:
    return int.from_bytes(hashlib.sha256(token.encode()).digest()[-4:], "big")
