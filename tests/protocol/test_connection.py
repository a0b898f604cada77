from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol import heads
from dirtybus.protocol.connection import CLOSED, NEED_DATA, Connection, Side
from dirtybus.protocol.frames import HEADER, LARGE_BYTES
from dirtybus.protocol.heads import Kind
from dirtybus.protocol.messages import Message, encode_message
from tests.protocol.fuzz import mutants
from tests.protocol.test_messages import ONE_OF_EACH

LIMIT = 1 << 20
HEADS = {head.kind: head for head in ONE_OF_EACH}
BOTH = {Side.CALLER: Side.CALLEE, Side.CALLEE: Side.CALLER}


def bytes_of(kind: Kind, id: int = 1, body: Any = ()) -> bytes:  # noqa: A002 - the field's name
    return b"".join(encode_message(Message(HEADS[kind], id, body)))


def events(connection: Connection) -> list[Message]:
    """Return the messages that are complete, with their bodies as bytes."""
    found = []
    while (event := connection.next_event()) is not NEED_DATA:
        if event is CLOSED:
            break
        found.append(Message(event.head, event.id, (bytes(event.payload),)))
    return found


def heard_at_once(connection: Connection, data: bytes) -> list[Message]:
    """Return the messages that are complete with ``data``, taken in the way that links do it."""
    message = connection.receive_sole(data)
    if message is not None:
        return [Message(message.head, message.id, (bytes(message.payload),))]
    connection.receive_data(data)
    return events(connection)


class Pair:
    """Two ends joined by a link that carries bytes when it is told to."""

    def __init__(self) -> None:
        self.ends = {side: Connection(side, LIMIT) for side in Side}
        self.wires: dict[Side, deque[bytes]] = {side: deque() for side in Side}
        self.sent: dict[Side, list[Message]] = {side: [] for side in Side}
        self.heard: dict[Side, list[Message]] = {side: [] for side in Side}

    def send(self, side: Side, kind: Kind, id: int = 1, body: bytes = b"") -> bool:  # noqa: A002
        message = Message(HEADS[kind], id, (body,))
        try:
            parts = self.ends[side].send(message)
        except LocalProtocolError:
            return False
        self.wires[side].append(b"".join(parts))
        self.sent[side].append(message)
        return True

    def carry(self, side: Side, count: int) -> None:
        """Bring the next ``count`` bytes that ``side`` sent to the other end."""
        other, data = BOTH[side], b""
        wire = self.wires[side]
        while wire and len(data) < count:
            data += wire.popleft()
        if len(data) > count:
            wire.appendleft(data[count:])
            data = data[:count]
        if data:
            self.heard[other] += heard_at_once(self.ends[other], data)

    def settle(self) -> None:
        for side in Side:
            self.carry(side, 1 << 30)

    def open_call(self, *kinds: tuple[Side, Kind]) -> Pair:
        for side, kind in kinds:
            assert self.send(side, kind), f"{side} may not send {kind.name}"
            self.settle()
        return self


moves = st.one_of(
    st.tuples(
        st.just("send"),
        st.sampled_from(list(Side)),
        st.sampled_from(sorted(Kind)),
        st.integers(1, 3),
        st.sampled_from([b"", b"body", b"\x00" * (LARGE_BYTES + 7)]),
    ),
    st.tuples(st.just("carry"), st.sampled_from(list(Side)), st.integers(1, LARGE_BYTES)),
)


@given(st.lists(moves, max_size=60))
def test_what_one_end_may_send_the_other_end_understands_however_it_crosses(script: list[Any]) -> None:
    pair = Pair()
    for name, *arguments in script:
        getattr(pair, name)(*arguments)
    pair.settle()
    for side, other in BOTH.items():
        assert pair.heard[other] == pair.sent[side]
    assert pair.ends[Side.CALLER].open_calls == pair.ends[Side.CALLEE].open_calls


# --- what may follow what -----------------------------------------------------------------------------------------

IDLE: tuple[tuple[Side, Kind], ...] = ()
OPEN = ((Side.CALLER, Kind.CALL),)
STREAMING = (*OPEN, (Side.CALLEE, Kind.CHUNK))
CANCELLING = (*OPEN, (Side.CALLER, Kind.CANCEL))
DONE = (*OPEN, (Side.CALLEE, Kind.REPLY))
ASKED_BY_CALLER = ((Side.CALLER, Kind.STASH),)
ASKED_BY_CALLEE = ((Side.CALLEE, Kind.STASH),)

_ASKS = {Kind.STASH, Kind.STATUS, Kind.MANAGE}
_ANSWERS = {Kind.ANSWER, Kind.STASH_ANSWER, Kind.REFUSAL}
_CALLER = {Kind.HELLO, Kind.INSPECT, Kind.BOOT, Kind.STOP, Kind.RUN_BATCH, Kind.CANCEL, Kind.CREDIT}
_CALLEE = {Kind.HELLO, Kind.INSPECTED, Kind.BOOTING, Kind.READY, Kind.BOOT_FAILED, Kind.LOG, Kind.DRAIN, Kind.GOODBYE}
_WORDS = {Kind.CHUNK, Kind.PROGRESS, Kind.END, Kind.FAILURE}

LEGAL = [
    ("idle", IDLE, Side.CALLER, _CALLER | _ASKS | {Kind.CALL}),
    ("idle", IDLE, Side.CALLEE, _CALLEE | _ASKS),
    ("open", OPEN, Side.CALLER, _CALLER | _ASKS),
    ("open", OPEN, Side.CALLEE, _CALLEE | _ASKS | _WORDS | {Kind.REPLY}),
    ("streaming", STREAMING, Side.CALLER, _CALLER | _ASKS),
    ("streaming", STREAMING, Side.CALLEE, _CALLEE | _ASKS | _WORDS),
    ("cancelling", CANCELLING, Side.CALLER, _CALLER | _ASKS),
    ("cancelling", CANCELLING, Side.CALLEE, _CALLEE | _ASKS | _WORDS | {Kind.REPLY}),
    ("done", DONE, Side.CALLER, _CALLER | _ASKS | {Kind.CALL}),
    ("done", DONE, Side.CALLEE, _CALLEE | _ASKS),
    ("asked by the caller", ASKED_BY_CALLER, Side.CALLER, _CALLER | {Kind.CALL}),
    ("asked by the caller", ASKED_BY_CALLER, Side.CALLEE, _CALLEE | _ASKS | _ANSWERS),
    ("asked by the callee", ASKED_BY_CALLEE, Side.CALLER, _CALLER | _ASKS | _ANSWERS | {Kind.CALL}),
    ("asked by the callee", ASKED_BY_CALLEE, Side.CALLEE, _CALLEE),
]
CASES = [
    pytest.param(history, side, kind, kind in legal, id=f"{name}-{side.value}-{kind.name}")
    for name, history, side, legal in LEGAL
    for kind in Kind
]


@pytest.mark.parametrize(("history", "side", "kind", "is_legal"), CASES)
def test_both_ends_allow_the_same_and_nothing_else(
    history: tuple[tuple[Side, Kind], ...], side: Side, kind: Kind, is_legal: bool
) -> None:
    sender = Pair().open_call(*history)
    before = repr(vars(sender.ends[side])["_calls"]), repr(vars(sender.ends[side])["_asked"])
    assert sender.send(side, kind) is is_legal
    if not is_legal:
        assert (repr(vars(sender.ends[side])["_calls"]), repr(vars(sender.ends[side])["_asked"])) == before

    receiver = Pair().open_call(*history).ends[BOTH[side]]
    receiver.receive_data(bytes_of(kind))
    if is_legal:
        assert len(events(receiver)) == 1
    else:
        for _ in range(2):  # and it stays refused
            with pytest.raises(RemoteProtocolError, match=kind.name if kind not in _ASKS else "asked before"):
                events(receiver)


def test_a_refused_message_leaves_the_call_as_it_was() -> None:
    pair = Pair().open_call(*OPEN)
    with pytest.raises(LocalProtocolError, match=str(LIMIT)):
        pair.ends[Side.CALLEE].send(Message(heads.Reply(), 1, (bytes(LIMIT + 1),)))
    assert pair.ends[Side.CALLEE].open_calls == {1}
    assert pair.send(Side.CALLEE, Kind.REPLY)
    pair.settle()
    assert pair.ends[Side.CALLER].open_calls == frozenset()


def test_the_books_hold_open_calls_and_questions_only() -> None:
    pair = Pair()
    for id in range(2000):  # noqa: A001 - the field's name
        for side, kind in (*STREAMING, (Side.CALLER, Kind.CANCEL), (Side.CALLEE, Kind.END)):
            assert pair.send(side, kind, id)
            pair.settle()
        assert pair.send(Side.CALLER, Kind.CANCEL, id), "a late cancel"
        assert pair.send(Side.CALLEE, Kind.STATUS, id)
        pair.settle()
        assert pair.send(Side.CALLER, Kind.ANSWER, id)
        pair.settle()
    for end in pair.ends.values():
        assert vars(end)["_calls"] == {}
        assert vars(end)["_asked"] == {Side.CALLER: set(), Side.CALLEE: set()}
        assert len(vars(end)["_buffer"]) == 0


# --- the byte stream ----------------------------------------------------------------------------------------------

#: what a worker may say on two calls, with a large body among small ones
SPEECH = [
    Message(HEADS[Kind.READY], 0, (b"",)),
    Message(HEADS[Kind.CHUNK], 1, (b"x" * 50,)),
    Message(HEADS[Kind.LOG], 2, (b"",)),
    Message(HEADS[Kind.REPLY], 2, (bytes(range(256)) * (LARGE_BYTES // 256 + 1),)),
    Message(HEADS[Kind.END], 1, (b"",)),
]
STREAM = b"".join(b"".join(encode_message(message)) for message in SPEECH)


def listener() -> Connection:
    connection = Connection(Side.CALLER, LIMIT)
    for id in (1, 2):  # noqa: A001 - the field's name
        connection.send(Message(HEADS[Kind.CALL], id))
    return connection


def test_every_split_of_the_stream_gives_the_same_messages() -> None:
    edges = {0, *range(400), *range(len(STREAM) - 100, len(STREAM) + 1), *range(0, len(STREAM), 997)}
    for at in sorted(edges):
        connection = listener()
        heard = []
        for part in (STREAM[:at], STREAM[at:]):
            if part:
                heard += heard_at_once(connection, part)
        assert heard == SPEECH, f"split at {at}"


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_pieces_of_the_stream_give_the_same_messages(cuts: list[int]) -> None:
    connection, heard, start = listener(), [], 0
    for at in (*sorted(cuts), len(STREAM)):
        if at > start:
            connection.receive_data(memoryview(STREAM)[start:at])
            heard += events(connection)
            start = at
    assert heard == SPEECH


def test_a_frame_each_gives_the_same_messages_the_short_way() -> None:
    connection, heard = listener(), []
    for message in SPEECH:
        data = b"".join(encode_message(message))
        sole = connection.receive_sole(data)
        assert (sole is None) == (len(data) > LARGE_BYTES)
        heard += heard_at_once(connection, data) if sole is None else [Message(sole.head, sole.id, (sole.payload,))]
    assert [(each.head, each.id, bytes(each.payload)) for each in heard] == [
        (each.head, each.id, bytes(each.payload)) for each in SPEECH
    ]


def test_the_short_way_is_closed_while_a_part_of_a_message_waits_and_after_an_error() -> None:
    connection = Connection(Side.CALLEE, LIMIT)
    inner = bytes_of(Kind.CREDIT)  # a whole message in the middle of another one is a part of that
    outer = bytes_of(Kind.CALL, body=(inner,))
    connection.receive_data(outer[: -len(inner)])
    assert connection.next_event() is NEED_DATA
    assert connection.receive_sole(inner) is None
    connection.receive_data(inner)
    assert [each.payload for each in events(connection)] == [inner]
    connection.receive_data(inner + inner)
    assert connection.next_event() is not NEED_DATA
    assert connection.receive_sole(inner) is None, "it would overtake the second one"
    assert len(events(connection)) == 1
    with pytest.raises(RemoteProtocolError, match="CHUNK"):
        connection.receive_sole(bytes_of(Kind.CHUNK))
    assert connection.receive_sole(bytes_of(Kind.CREDIT)) is None
    with pytest.raises(RemoteProtocolError, match="CHUNK"):
        connection.next_event()


def test_the_short_way_has_the_same_limit() -> None:
    data = bytes_of(Kind.CALL)
    assert Connection(Side.CALLEE, len(data) - HEADER.size - 1).receive_sole(data) is None
    assert Connection(Side.CALLEE, len(data)).receive_sole(data) is not None


def test_an_end_between_messages_is_in_order_and_inside_one_is_not() -> None:
    whole = listener()
    whole.receive_data(STREAM)
    whole.receive_data(b"")
    assert events(whole) == SPEECH
    assert whole.next_event() is CLOSED
    for cut in (1, HEADER.size - 1, HEADER.size, HEADER.size + 3, len(STREAM) - 5):
        broken = listener()
        broken.receive_data(STREAM[:cut])
        broken.receive_data(b"")
        with pytest.raises(RemoteProtocolError, match="unfinished"):
            events(broken)


@pytest.mark.parametrize("head", [b"XX\x02\x01", b"GD\x03\x01", b"GD\x01\x01", b"GD\x00\x01"])
def test_another_magic_or_version_is_refused(head: bytes) -> None:
    connection = Connection(Side.CALLEE, LIMIT)
    connection.receive_data(head + bytes(12))
    with pytest.raises(RemoteProtocolError):
        connection.next_event()


def test_more_than_the_limit_is_refused_at_its_header() -> None:
    connection = Connection(Side.CALLEE, LIMIT)
    connection.receive_data(HEADER.pack(b"GD", 2, Kind.CALL, LIMIT + 1, 1))
    with pytest.raises(RemoteProtocolError, match=str(LIMIT)):
        connection.next_event()


# --- fuzz ---------------------------------------------------------------------------------------------------------

_ORIGINALS = [bytes_of(kind, body=(b"body",)) for kind in Kind] + [
    b"".join((bytes_of(Kind.CALL), bytes_of(Kind.CREDIT), bytes_of(Kind.CANCEL))),
    b"".join((bytes_of(Kind.HELLO), bytes_of(Kind.STASH), bytes_of(Kind.STATUS, 2))),
]


def heard_of(data: bytes, side: Side, step: int) -> tuple[list[bytes], bool]:
    """Return what is understood of ``data``, fed in steps (and written again), and whether it was refused.

    All of it in one step goes the short way, if it is one message.
    """
    connection = listener() if side is Side.CALLER else Connection(side, LIMIT)
    heard: list[bytes] = []
    try:
        if step >= len(data) and (sole := connection.receive_sole(data)) is not None:
            return [b"".join(encode_message(sole))], False
        for at in range(0, len(data) + step, step):
            connection.receive_data(data[at : at + step])
            while (event := connection.next_event()) is not NEED_DATA and event is not CLOSED:
                heard.append(b"".join(encode_message(event)))
    except RemoteProtocolError:
        return heard, True
    return heard, False


def assert_harmless(count: int, seed: int) -> None:
    for number, data in enumerate(mutants(_ORIGINALS, count, seed=seed)):
        side = (Side.CALLER, Side.CALLEE)[number % 2]
        whole = heard_of(data, side, max(1, len(data)))
        assert heard_of(data, side, 1) == whole, data.hex()


def test_broken_frames_raise_one_error_and_nothing_else() -> None:
    assert_harmless(10_000, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_thousand_broken_frames_raise_one_error_and_nothing_else() -> None:
    assert_harmless(200_000, seed=2)
