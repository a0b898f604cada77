from __future__ import annotations

import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import DirtyError, RemoteProtocolError, StashError, StashTableNotFoundError
from dirtybus.protocol.codec import encode_whole
from dirtybus.protocol.heads import Answer, StashAnswer, StashAsk, StatusAsk
from dirtybus.protocol.messages import Message
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.note import PlainChange
from dirtybus.stash.ops import Condition, StashOp, StashReply, Transact, decode_op, encode_op
from dirtybus.stash.ops_entries import Cas, Get, Incr, Put
from dirtybus.stash.ops_leases import Acquire
from dirtybus.stash.ops_many import Ensure, Info, Page, PutMany, Rules
from dirtybus.stash.ops_watch import Watch
from dirtybus.stash.wire import answer_message, ask_message, op_of, reply_of

any_op: st.SearchStrategy[Any] = st.one_of([st.from_type(kind) for kind in get_args(StashOp)])
replies = st.builds(
    StashReply,
    is_true=st.booleans(),
    value=st.none() | st.binary(max_size=9),
    version=st.integers(0, 2**63),
    count=st.integers(0, 2**40),
    keys=st.lists(st.binary(max_size=9), max_size=3).map(tuple),
    values=st.lists(st.none() | st.binary(max_size=9), max_size=3).map(tuple),
    names=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    cursor=st.none() | st.tuples(st.integers(0, 2**63), st.integers(-(2**63), 2**63)),
    span_s=st.none() | st.floats(allow_nan=False),
    info=st.none() | st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.integers(0, 2**40), max_size=3),
    changes=st.lists(st.builds(PlainChange, st.just("put"), st.none() | st.binary(), st.integers(0, 9))).map(tuple),
)


def sent(message: Message) -> Message:
    """Return the message as a peer reads it, its body a view of a larger buffer."""
    head = msgspec.msgpack.decode(msgspec.msgpack.encode(message.head), type=type(message.head))
    frame = bytearray(b"head" + b"".join(message.body))
    return Message(head, message.id, (memoryview(frame)[4:],) if message.body else ())


EXAMPLES: list[StashOp] = [
    Put("t", b"k", b"v", 3.0, math.inf),
    Incr("t", b"k", 2.5),
    Cas("t", b"k", None, b"", None, 2.0),
    PutMany("t", (b"k", b"l"), (b"v", b"")),
    Page("t", (5, -(2**63)), 7, "a*", has_values=True),
    Ensure("t", Rules(max_entries=3, on_full="lru", watch=True)),
    Transact((Get("t", b"k"), Put("t", b"k", b"v")), (Condition("t", b"k", 0),)),
    Acquire("name", "token", 3.0, 2, 1.0),
    Watch("t", "a*", (1, 2), 3.0),
]


@pytest.mark.parametrize("op", EXAMPLES)
def test_an_operation_arrives_as_it_was_sent(op: StashOp) -> None:
    message = sent(ask_message(op, 7))
    assert (op_of(message), message.id) == (op, 7)


@given(replies, st.integers(0, 2**63))
def test_a_reply_arrives_as_it_was_sent(reply: StashReply, number: int) -> None:
    message = sent(answer_message(reply, number))
    assert (reply_of(message), message.id) == (reply, number)


def test_what_arrives_is_its_own_and_no_view_of_the_frame() -> None:
    op = op_of(sent(ask_message(Put("t", b"k", b"v"))))
    assert isinstance(op, Put)
    assert [type(part) for part in (op.key, op.value)] == [bytes, bytes]


@pytest.mark.parametrize("message", [Message(StatusAsk()), Message(StashAsk(), 0, (b"",)), Message(StashAsk())])
def test_a_message_that_is_no_operation_is_the_peers_fault(message: Message) -> None:
    with pytest.raises(RemoteProtocolError, match="no operation of the stash"):
        op_of(message)


@pytest.mark.parametrize("message", [Message(Answer()), Message(StashAnswer(), 0, (b"\x93",)), Message(StashAnswer())])
def test_a_message_that_is_no_reply_is_the_peers_fault(message: Message) -> None:
    with pytest.raises(RemoteProtocolError, match=r"no (reply|operation) of the stash"):
        reply_of(message)


@pytest.mark.parametrize("op", EXAMPLES)
def test_fields_of_a_newer_peer_are_skipped(op: StashOp) -> None:
    plain = [*msgspec.msgpack.decode(encode_op(op))]
    fields = len(op.__struct_fields__)
    assert len(plain) == fields + 1, "the tag and the fields"
    assert decode_op(msgspec.msgpack.encode([*plain, "new"])) == op


def test_a_number_that_no_peer_could_read_is_refused_before_it_is_sent() -> None:
    with pytest.raises(StashError, match="64 bits"):
        encode_op(Incr("t", b"k", 2**64))


@given(st.sampled_from(EXAMPLES), st.data())
def test_bytes_that_were_changed_are_an_operation_or_the_peers_fault(op: StashOp, data: st.DataObject) -> None:
    written = bytearray(encode_op(op))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(written)))
        written[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    take(bytes(written))


@given(st.binary(max_size=40))
def test_bytes_of_any_kind_are_an_operation_or_the_peers_fault(written: bytes) -> None:
    take(written)


@pytest.mark.parametrize(
    "written",
    [
        b"\x91" * 100_000,
        b"\x92\xa8transact" + b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffabc",
        msgspec.msgpack.encode(["put", "t", b"k", b"v", 2**63]),
        msgspec.msgpack.encode(["page", "t", [-(2**63), 2**64 - 1], 2**64 - 1]),
        msgspec.msgpack.encode(["get", b"\xff", b"k"]),
        b"\x93\xa3get\xa2\xff\xff\xc4\x01k",
    ],
)
def test_bytes_that_are_made_to_hurt_do_not(written: bytes) -> None:
    take(written)


def take(written: bytes) -> None:
    """Read an operation from a peer and carry it out as the owner does: nothing but an answer may come of it."""
    try:
        op = decode_op(written)
    except RemoteProtocolError:
        return
    answers: list[StashReply | DirtyError] = []
    keeper = Keeper(first_version=0)
    keeper.submit(Put("t", b"k", encode_whole(1)), "me", answers.append)
    keeper.submit(op, "peer", answers.append)
    assert len(answers) + keeper.waiting == 2


@given(any_op)
def test_no_operation_breaks_the_owner(op: StashOp) -> None:
    keeper = Keeper(first_version=0)
    answers: list[StashReply | DirtyError] = []
    for _ in range(2):
        keeper.submit(op, "peer", answers.append)
    keeper.leave("peer")
    assert len(answers) <= 2
    assert keeper.waiting == 0


@given(st.binary(max_size=9), st.binary(max_size=9), any_op)
def test_no_value_breaks_the_operations_on_it(key: bytes, value: bytes, op: StashOp) -> None:
    keeper = Keeper(first_version=0)
    answers: list[StashReply | DirtyError] = []
    keeper.submit(Put("t", key, value), "peer", answers.append)
    try:
        there: Any = msgspec.structs.replace(op, table="t", key=key)
    except TypeError:
        return  # it is about something else
    keeper.submit(there, "peer", answers.append)
    keeper.leave("peer")


def test_info_on_a_missing_table_raises(tables: StashTables) -> None:
    with pytest.raises(StashTableNotFoundError):
        Info("t").apply(tables, 0)


def test_a_repr_shows_no_content() -> None:
    assert repr(Put("t", b"secret", b"secret")) == "<Put 't' of 12 bytes>"
    assert repr(Page("t", pattern="secret")) == "<Page 't' of 0 bytes>"
    assert repr(StashReply(value=b"secret")) == "<StashReply True value of 6 bytes count 0, 0 keys>"
