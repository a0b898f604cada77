"""The chunks of a call that is not streamed, kept until its end; bounded, as a generator need have none."""

from __future__ import annotations

from typing import Any, Final

from dirtybus.errors import CallError
from dirtybus.protocol.codec import decode_body
from dirtybus.protocol.frames import Buffer

__all__ = ["MOST_GATHERED_BYTES", "Gathered"]

MOST_GATHERED_BYTES: Final = 256 * 1024 * 1024
#: what even an empty chunk takes up here
_EACH_BYTES: Final = 64


class Gathered:
    """Chunks in the order of their coming, `MOST_GATHERED_BYTES` of them at most."""

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._bytes = 0

    def add(self, chunk: Buffer) -> None:
        """Keep one more.

        Raises:
            CallError: that is too much to keep.
        """
        self._bytes += _EACH_BYTES + (chunk.nbytes if isinstance(chunk, memoryview) else len(chunk))
        if self._bytes > MOST_GATHERED_BYTES:
            self._chunks.clear()
            raise CallError(
                f"the action yielded more than {MOST_GATHERED_BYTES // 2**20} MiB in all, which is too much to gather "
                "in a list; read it chunk by chunk: use stream() in place of a plain call"
            )
        self._chunks.append(chunk)

    def values(self) -> list[Any]:
        """Return what was yielded. Raises as `decode_body`."""
        return [decode_body(chunk) for chunk in self._chunks]
