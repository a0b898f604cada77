from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import sys
import threading
from datetime import datetime, tzinfo
from fractions import Fraction
from pathlib import PosixPath, PureWindowsPath
from types import ModuleType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import CallError, DecodeError, EncodeError, RemoteProtocolError
from dirtybus.protocol import codec_numpy
from dirtybus.protocol.codec import MAX_DEPTH, decode_body, encode_body, importable_types, loaded_types
from dirtybus.protocol.places import Unsendable
from tests.protocol.specimens import (
    UNSENDABLE,
    Colour,
    Frozen,
    Level,
    Open,
    Outer,
    Pair,
    Point,
    joined,
    through,
    values,
)


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Odd(float):
    pass


class Plain:
    pass


class Zone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> None: ...
    def tzname(self, moment: datetime | None) -> None: ...
    def dst(self, moment: datetime | None) -> None: ...


class Undecorated(Open):
    pass


@dataclasses.dataclass
class Lists(list[int]):
    x: int = 0


class Loaded(Point):
    """A named tuple with a ``__dict__``."""


def refusal_of(value: object, root: str | tuple[str, ...] = "value") -> EncodeError:
    with pytest.raises(EncodeError) as caught:
        encode_body(value, root=root)
    return caught.value


@pytest.mark.parametrize("value", UNSENDABLE, ids=lambda value: type(value).__name__)
def test_what_has_no_way_is_refused_with_its_type(value: object) -> None:
    refused = refusal_of([value])
    assert refused.place == "value[0]"
    assert f"type {type(value).__qualname__}" in refused.message or f".{type(value).__qualname__};" in refused.message


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (collections.OrderedDict(a=1), "dict"),
        (collections.defaultdict(int), "dict"),
        (collections.Counter("a"), "dict"),
        (Text("x"), "str"),
        (Whole(3), "int"),
        (type("Floats", (float,), {})(1.5), "float"),
        (type("Lists", (list,), {})(), "list"),
        (type("Tuples", (tuple,), {})(), "tuple"),
        (type("Sets", (set,), {})(), "set"),
        (Lists(1), "list"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclasses_of_plain_types_are_refused_with_the_conversion_that_helps(value: object, base: str) -> None:
    assert f"send {base}(value)" in refusal_of({"k": value}).message


@pytest.mark.parametrize("count", [1, 31, 32, 200])
def test_a_subclass_hides_in_no_position_of_a_list_or_dict(count: int) -> None:
    for plain, odd in (("a", Text("a")), (1, Whole(1)), (1.5, Odd(1.5))):
        for at in {0, count // 2, count - 1}:
            items: list[Any] = [plain] * count
            items[at] = odd
            assert refusal_of(items).place == f"value[{at}]"
            assert refusal_of(dict(enumerate(items))).place == f"value[{at}]"
            keyed: dict[Any, int] = {**dict.fromkeys(map(str, range(at)), 1), odd: 1}
            assert refusal_of(keyed).place == f"value.keys()[{at}]"


def test_the_place_leads_through_every_container() -> None:
    bad = Plain()
    assert refusal_of({"items": [1, 2, 3, Open(bad)]}).place == "value['items'][3].name"
    assert refusal_of((0, {2: {"a", (1, bad)}})).place in {f"value[1][2]<member {n}>[1]" for n in (0, 1)}
    assert refusal_of(Point(1, Pair(bad, 2))).place == "value.y.left"
    assert refusal_of(slice(None, bad)).place == "value<bound 1>"
    assert refusal_of({(1, bad): 2}).place == "value.keys()[0][1]"
    assert refusal_of({(1, 2): bad}).place == "value[<tuple>]"
    assert refusal_of(Outer.Inner(frozenset([bad]))).place == "value.value<member 0>"
    assert refusal_of({2**70: 1, "x": [bad]}).place == "value['x'][0]"
    assert refusal_of({"k" * 500: bad}).place == f"value['{'k' * 59}…]"
    assert refusal_of({2**20000: bad}).place == "value[<int>]"


def test_root_names_the_value_or_each_of_its_items() -> None:
    assert refusal_of([Plain()], root="result").place == "result[0]"
    pair = [(1, {"model": Plain()}), {}]
    refused = refusal_of(pair, root=("args", "kwargs"))
    assert refused.place == "args[1]['model']"
    assert refused.message.startswith("args[1]['model']: cannot send a value of type tests.protocol.")
    assert refusal_of([(), {"x": Plain()}], root=("args", "kwargs")).place == "kwargs['x']"
    assert refusal_of(Plain(), root=("args", "kwargs")).place == "(args, kwargs)"


def test_classes_that_nobody_can_find_by_name_are_refused() -> None:
    @dataclasses.dataclass
    class Local:
        x: int = 0

    local_enum: Any = enum.Enum("local_enum", "A", qualname="f.<locals>.E")
    in_main: Any = collections.namedtuple("in_main", "a", module="__main__")  # noqa: PYI024
    made_in_main = dataclasses.make_dataclass("InMain", ["x"])
    made_in_main.__module__ = "__main__"
    hidden = dataclasses.make_dataclass("Hidden", ["x"])
    hidden.__module__ = __name__
    assert "inside a function" in refusal_of(Local()).message
    assert "another __main__" in refusal_of(made_in_main(1)).message
    assert "another __main__" in refusal_of(in_main(1)).message
    assert "would not be found" in refusal_of(hidden(1)).message
    assert "inside a function" in refusal_of(local_enum.A).message


def test_an_instance_of_a_class_that_was_since_replaced_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Grumpy(1)
    monkeypatch.setattr(sys.modules[__name__], "Grumpy", Plain)
    assert "is not this class" in refusal_of(old).message


def test_state_that_would_be_lost_is_refused() -> None:
    loaded = Loaded(1, 2)
    assert type(through(loaded)) is Loaded
    loaded.note = "lost"  # type: ignore[attr-defined]
    assert "more than its fields" in refusal_of(loaded).message
    assert refusal_of(Undecorated("x")).place == "value"
    extra = Open("x")
    extra.lock = threading.Lock()  # type: ignore[attr-defined]
    assert refusal_of(extra).place == "value.lock"


def test_zones_of_ones_own_and_nameless_zones_are_refused() -> None:
    refused = refusal_of([datetime(2024, 1, 1, tzinfo=Zone())])
    assert refused.place == "value[0]"
    assert "zoneinfo" in refused.message


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.zeros(2, [("a", "i4"), ("b", "O")]),
        np.array(["a"], np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else np.array([None]),
        np.ma.MaskedArray([1]),
        np.zeros(1, [("a", "O")])[0],
    ],
    ids=["object", "field", "string", "masked", "scalar"],
)
def test_arrays_without_plain_bytes_are_refused(array: object) -> None:
    assert refusal_of({"x": array}).place == "value['x']"


def test_a_dtype_of_another_package_that_numpy_spells_as_raw_bytes_is_refused() -> None:
    bfloat16: Any = SimpleNamespace(subdtype=None, names=None, str="<V2")
    with pytest.raises(Unsendable, match="astype"):
        codec_numpy._write_type(np, bfloat16)


def test_nesting_is_bounded_and_a_circle_is_named_as_one() -> None:
    allowed: object = 1
    for _ in range(MAX_DEPTH):
        allowed = [allowed]
    through(allowed)
    assert "nested more than 200" in refusal_of([allowed]).message
    one_more: object
    for one_more in ([], (), {}, {None: 1}, {1}, Frozen(1), Point(1, 2), {(): 1}):
        deep: object = one_more
        for _ in range(MAX_DEPTH):
            deep = (deep,)
        assert "nested more than 200" in refusal_of(deep).message
    circle: list[object] = []
    circle.append(circle)
    refused = refusal_of({"x": circle})
    assert "in a circle" in refused.message
    assert refused.place.startswith("value['x'][0][0]")
    assert len(refused.place) < 200
    tree: dict[str, object] = {}
    tree["a"] = (tree, tree)
    assert "in a circle" in refusal_of(tree).message


def test_a_nearly_full_stack_is_a_clear_error_and_no_recursion_error() -> None:
    value: object = 1
    for _ in range(150):
        value = (value,)
    body = joined(encode_body(value))
    outcomes: list[str] = []

    def fall() -> None:
        for attempt in (lambda: encode_body(value), lambda: decode_body(body)):
            try:
                attempt()
            except CallError as refused:
                outcomes.append(f"{type(refused).__name__}: {refused.message}")
            except RecursionError:
                return  # no room even for the call itself
        fall()

    with contextlib.suppress(RecursionError):
        fall()
    assert any("left of the Python stack" in outcome and "EncodeError" in outcome for outcome in outcomes)
    assert any("left of the Python stack" in outcome and "DecodeError" in outcome for outcome in outcomes)


@given(values)
def test_an_unsendable_value_is_found_wherever_it_stands(value: object) -> None:
    for holder in ([value, Plain()], {"a": value, "b": Plain()}, Frozen(value, Plain())):
        assert refusal_of(holder).place in {"value[1]", "value['b']", "value.value"}


def test_what_would_come_back_as_another_value_is_refused() -> None:
    drive = PureWindowsPath("./a:b")
    if PureWindowsPath(str(drive)) == drive:  # from Python 3.12 on
        assert through(drive) == drive
    else:
        assert "does not survive" in refusal_of([drive]).message
    stray = object.__new__(Colour)
    stray._name_ = "STRAY"
    assert "no member of its enum" in refusal_of(stray).message
    named = Open("x")
    vars(named)["not a name"] = 1
    assert "is not a name" in refusal_of(named).message


def test_a_windows_path_cannot_be_made_elsewhere() -> None:
    body = joined(encode_body(PosixPath("a"))).replace(b"\x92\x01\xc4", b"\x92\x03\xc4")
    if sys.platform != "win32":
        with pytest.raises(DecodeError, match="WindowsPath cannot be made on this system"):
            decode_body(body)


def test_what_a_resolver_raises_fails_the_call_and_memory_errors_pass() -> None:
    def raising(error: BaseException) -> Any:
        def resolve(module: str, qualname: str) -> type:
            raise error

        return resolve

    body = joined(encode_body(Frozen(1)))
    with pytest.raises(DecodeError, match="OSError: no disk"):
        decode_body(body, resolve=raising(OSError("no disk")))
    with pytest.raises(MemoryError):
        decode_body(body, resolve=raising(MemoryError()))


# --- what arrives whole and has no class here ---------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("dirtybus_test_models")
    gone = dataclasses.make_dataclass("Gone", ["x"])
    gone.__module__ = made.__name__
    made.Gone = gone  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_a_class_whose_module_is_not_loaded_is_not_imported(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = joined(encode_body([module.Gone(1)]))
    monkeypatch.delitem(sys.modules, module.__name__)
    with pytest.raises(DecodeError, match=r"import dirtybus_test_models in this process first"):
        decode_body(body)
    with pytest.raises(DecodeError, match=r"importing dirtybus_test_models failed: ModuleNotFoundError"):
        decode_body(body, resolve=importable_types)


def test_looking_a_class_up_does_not_run_the_modules_getattr(module: ModuleType) -> None:
    body = joined(encode_body(module.Gone(1)))
    del module.Gone
    module.__getattr__ = lambda name: pytest.fail("ran")  # type: ignore[method-assign]
    with pytest.raises(DecodeError, match="no class of that name"):
        decode_body(body)


def test_a_class_that_changed_its_kind_is_a_decode_error(module: ModuleType) -> None:
    body = joined(encode_body(module.Gone(1)))
    for other in (Plain, Colour, Point, int):
        module.Gone = other  # type: ignore[attr-defined]
        with pytest.raises(DecodeError, match="do both sides run the same code"):
            decode_body(body)
    module.Gone = dataclasses.make_dataclass("Gone", ["y"], slots=True)  # type: ignore[attr-defined]
    with pytest.raises(DecodeError, match="fields that were sent"):
        decode_body(body)


def test_a_member_or_field_that_is_gone_is_a_decode_error() -> None:
    body = joined(encode_body([Level.LOW]))
    with pytest.raises(DecodeError, match="enum with the member LOW"):
        decode_body(body, resolve=lambda module, qualname: Colour)
    pair = joined(encode_body(Pair(1, 2)))
    with pytest.raises(DecodeError, match="named tuple of 2 fields"):
        decode_body(pair, resolve=lambda module, qualname: collections.namedtuple("One", "a"))  # noqa: PYI024


def test_a_time_zone_that_is_unknown_here_is_a_decode_error() -> None:
    body = joined(encode_body(ZoneInfo("Europe/Paris"))).replace(b"Europe/Paris", b"Europe/Pariz")
    with pytest.raises(DecodeError, match="tzdata"):
        decode_body(body)
    with pytest.raises(DecodeError, match="is not known here"):
        decode_body(joined(encode_body(ZoneInfo("Europe/Paris"))).replace(b"Europe/Paris", b"../../passwd"))


def test_an_array_without_numpy_here_is_a_decode_error(monkeypatch: pytest.MonkeyPatch) -> None:
    body = joined(encode_body([np.arange(3)]))
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(DecodeError, match=r"pip install 'dirtybus\[numpy\]'"):
        decode_body(body)


@dataclasses.dataclass(frozen=True)
class Grumpy:
    x: int

    def __hash__(self) -> int:
        if _grumpy:
            raise LookupError("not today")
        return 1


_grumpy: list[bool] = []


def test_user_code_that_fails_while_rebuilding_fails_the_call_not_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = joined(encode_body({Grumpy(1)}))
    monkeypatch.setattr(sys.modules[__name__], "_grumpy", [True])
    with pytest.raises(DecodeError, match="not today"):
        decode_body(body)


def test_resolvers_answer_with_classes_only() -> None:
    assert loaded_types(__name__, "Plain") is Plain
    assert importable_types("tests.protocol.specimens", "Outer.Inner") is Outer.Inner
    for resolve in (loaded_types, importable_types):
        for module, qualname in (
            (__name__, "refusal_of"),
            ("math", "pi"),
            (__name__, "Plain.x"),
            ("sys", "no"),
            ("", ""),
        ):
            with pytest.raises(DecodeError):
                resolve(module, qualname)


def test_a_decode_error_is_a_call_error_and_survives_the_wire() -> None:
    error = DecodeError("no such class", {"type": "a.B"})
    back = DecodeError.from_dict(error.to_dict())
    assert isinstance(back, DecodeError)
    assert isinstance(back, TypeError)
    assert not isinstance(back, RemoteProtocolError)
    assert back.details == {"type": "a.B"}


@given(st.integers(-(2**70), 2**70))
def test_fractions_and_other_odd_numbers_name_their_type(n: int) -> None:
    assert "fractions.Fraction" in refusal_of(Fraction(n, 7)).message
