"""A bot in graia's own style: creart makes the parts, Saya loads the skills, launart runs all of it.

Run it: pip install graia-saya && python examples/bot.py
"""

from __future__ import annotations

from bot_adapter import ScriptedChat
from creart import it
from graia.broadcast import Broadcast
from graia.saya import Saya
from launart import Launart

from dirtybus import DirtyBus


def main() -> None:
    bcc, saya, manager = it(Broadcast), it(Saya), it(Launart)
    DirtyBus(apps=["hello:Greeter"], workers=2).install(manager, bcc)
    with saya.module_context():
        saya.require("bot_skills")
    manager.add_component(ScriptedChat(bcc))
    manager.launch_blocking()


if __name__ == "__main__":
    main()
