"""What the bot can do, as a Saya module. Work of any weight goes to the workers; the chat stays quick meanwhile."""

from __future__ import annotations

from bot_adapter import MessageReceived
from graia.saya.builtins.broadcast.shortcut import listen
from graia.saya.channel import Channel

from dirtybus import DirtyBus, DirtyError, InferenceRequested

channel = Channel.current()


@listen(MessageReceived)
async def answer(message: MessageReceived, bus: DirtyBus) -> None:
    """``bus`` is injected by its annotation, as in every listener of a program with a `DirtyBus`."""
    skill, _, rest = message.text.partition(" ")
    try:
        match skill:
            case "hello":
                ask = InferenceRequested("hello:Greeter", "greet", args=(message.sender,), timeout_s=10)
                await message.reply(await bus.ask(ask))
            case "spell":
                ask = InferenceRequested("hello:Greeter", "spell", args=(rest,), timeout_s=10)
                await message.reply(" - ".join([word async for word in bus.stream(ask)]))
            case _:
                await message.reply("I know: hello, spell WORDS")
    except DirtyError as exc:  # the worker's failure is the answer; the bot lives on
        await message.reply(f"not now ({exc})")
