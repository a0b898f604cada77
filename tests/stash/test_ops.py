from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import RemoteProtocolError, StashError, StashTableNotFoundError
from dirtybus.protocol.messages import Answer, Message, StashAsk, StatusAsk
from dirtybus.stash.ops import StashOp, StashReply, apply
from dirtybus.stash.tables import StashTables
from dirtybus.stash.wire import answer_message, ask_message, op_of, reply_of

ops = st.builds(
    StashOp,
    st.text(max_size=9),
    st.text(max_size=9),
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(min_size=1, max_size=9),
    st.none() | st.text(max_size=9),
)
replies = st.builds(
    StashReply,
    is_true=st.booleans(),
    value=st.none() | st.binary(min_size=1, max_size=9),
    count=st.integers(0, 2**40),
    keys=st.lists(st.binary(max_size=9), max_size=3).map(tuple),
    values=st.lists(st.binary(max_size=9), max_size=3).map(tuple),
    names=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    info=st.none() | st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.integers(0, 2**40), max_size=3),
)


def sent(message: Message) -> Message:
    """Return the message as a peer reads it, its body a view of a larger buffer."""
    head = msgspec.msgpack.decode(msgspec.msgpack.encode(message.head), type=type(message.head))
    frame = bytearray(b"head" + b"".join(message.body))
    return Message(head, message.id, (memoryview(frame)[4:],) if message.body else ())


@given(ops, st.integers(0, 2**63))
def test_an_operation_arrives_as_it_was_sent(op: StashOp, number: int) -> None:
    message = sent(ask_message(op, number))
    assert (op_of(message), message.id) == (op, number)


@given(replies, st.integers(0, 2**63))
def test_a_reply_arrives_as_it_was_sent(reply: StashReply, number: int) -> None:
    message = sent(answer_message(reply, number))
    assert (reply_of(message), message.id) == (reply, number)


def test_a_value_is_not_copied_on_its_way_out_and_owned_on_its_way_in() -> None:
    value = bytes(100)
    assert ask_message(StashOp("put", "t", b"k", value)).body[0] is value
    assert answer_message(StashReply(value=value)).body[0] is value
    assert type(op_of(sent(ask_message(StashOp("put", "t", b"k", value)))).value) is bytes


@pytest.mark.parametrize(
    "head", [StatusAsk(), StashAsk(op={}), StashAsk(op={"verb": 1}), StashAsk(op={"verb": "get", "key": "text"})]
)
def test_a_message_that_is_no_operation_is_the_peers_fault(head: StatusAsk | StashAsk) -> None:
    with pytest.raises(RemoteProtocolError, match="no StashOp"):
        op_of(Message(head))


@pytest.mark.parametrize("head", [StatusAsk(), Answer(), Answer(value=[1]), Answer(value={"count": "many"})])
def test_a_message_that_is_no_reply_is_the_peers_fault(head: StatusAsk | Answer) -> None:
    with pytest.raises(RemoteProtocolError, match="no StashReply"):
        reply_of(Message(head))


def test_fields_of_a_newer_peer_are_skipped() -> None:
    assert op_of(Message(StashAsk(op={"verb": "tables", "expires_in_s": 5}))) == StashOp("tables")


def test_each_verb_does_what_its_name_says(tables: StashTables) -> None:
    steps: list[tuple[StashOp, StashReply]] = [
        (StashOp("put", "t", b"k", b"v"), StashReply()),
        (StashOp("get", "t", b"k"), StashReply(value=b"v")),
        (StashOp("get", "t", b"x"), StashReply(is_true=False)),
        (StashOp("setdefault", "t", b"k", b"w"), StashReply(value=b"v")),
        (StashOp("setdefault", "t", b"l", b"w"), StashReply(value=b"w")),
        (StashOp("exists", "t", b"l"), StashReply()),
        (StashOp("exists", "t"), StashReply()),
        (StashOp("exists", "u"), StashReply(is_true=False)),
        (StashOp("length", "t"), StashReply(count=2)),
        (StashOp("keys", "t"), StashReply(keys=(b"k", b"l"))),
        (StashOp("keys", "t", pattern="*"), StashReply()),
        (StashOp("items", "t"), StashReply(keys=(b"k", b"l"), values=(b"v", b"w"))),
        (StashOp("info", "t"), StashReply(info={"name": "t", "table": "t", "size": 2, "bytes": 4})),
        (StashOp("pop", "t", b"k"), StashReply(value=b"v")),
        (StashOp("pop", "t", b"k"), StashReply(is_true=False)),
        (StashOp("delete", "t", b"l"), StashReply()),
        (StashOp("delete", "t", b"l"), StashReply(is_true=False)),
        (StashOp("ensure", "u"), StashReply()),
        (StashOp("ensure", "u"), StashReply(is_true=False)),
        (StashOp("tables"), StashReply(names=("t", "u"))),
        (StashOp("put", "u", b"k", b"v"), StashReply()),
        (StashOp("clear", "u"), StashReply(count=1)),
        (StashOp("delete_table", "u"), StashReply()),
        (StashOp("delete_table", "u"), StashReply(is_true=False)),
    ]
    assert [apply(tables, op) for op, _ in steps] == [reply for _, reply in steps]


def test_an_unknown_verb_names_the_nearest(tables: StashTables) -> None:
    with pytest.raises(StashError, match="no stash operation 'putt'; did you mean 'put'"):
        apply(tables, StashOp("putt", "t", b"k", b"v"))


def test_a_verb_like_none_of_ours_lists_them(tables: StashTables) -> None:
    with pytest.raises(StashError, match="there are: put, get, pop"):
        apply(tables, StashOp("zzz"))


@pytest.mark.parametrize("verb", ["put", "get", "pop", "setdefault", "delete"])
def test_a_verb_without_its_key_is_refused(tables: StashTables, verb: str) -> None:
    with pytest.raises(StashError, match=f"'{verb}' on table 't' came without a key"):
        apply(tables, StashOp(verb, "t", value=b"v"))


@pytest.mark.parametrize("verb", ["put", "setdefault"])
def test_a_verb_without_its_value_is_refused_and_changes_nothing(tables: StashTables, verb: str) -> None:
    with pytest.raises(StashError, match=f"'{verb}' on table 't' came without a value"):
        apply(tables, StashOp(verb, "t", b"k"))
    assert tables.tables() == []


def test_info_on_a_missing_table_raises_through_apply(tables: StashTables) -> None:
    with pytest.raises(StashTableNotFoundError):
        apply(tables, StashOp("info", "t"))


def test_a_repr_shows_no_content() -> None:
    assert repr(StashOp("put", "t", b"secret", b"secret")) == "<StashOp put 't' key of 6 bytes value of 6 bytes>"
    assert repr(StashOp("keys", "t", pattern="a*")) == "<StashOp keys 't' pattern 'a*'>"
    assert repr(StashReply(value=b"secret")) == "<StashReply True value of 6 bytes count 0, 0 keys>"
