"""Pictures are drawn, made small and, with --ocr, read in dirty workers; the owner only moves bytes.

Run it: pip install pillow && python examples/images.py [--out DIRECTORY] [--ocr]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, ExecutionRequested, InferenceRequested
from dirtybus.errors import MissingExtra
from dirtybus.events import ArbiterStarting, ShutdownRequested

if TYPE_CHECKING:
    from PIL import Image

POSTERS = {"bus": "ONE BUS", "workers": "MANY WORKERS", "lost": "NOTHING LOST"}


class Studio(DirtyApp):
    """Draws and shrinks. Pillow is loaded here, in the worker, and nowhere else."""

    def init(self) -> None:
        if find_spec("PIL") is None:
            raise MissingExtra("pillow", "images", "drawing pictures")

    def draw(self, text: str, width_px: int = 1200, height_px: int = 600) -> bytes:
        """Paint a poster and return it as PNG."""
        from PIL import Image, ImageDraw, ImageFont

        image = Image.linear_gradient("L").resize((width_px, height_px)).convert("RGB")
        font = ImageFont.load_default(size=height_px // 6)
        place = (width_px / 2, height_px / 2)
        ImageDraw.Draw(image).text(
            place, text, font=font, anchor="mm", fill="white", stroke_width=4, stroke_fill="black"
        )
        return _png(image)

    def thumbnail(self, picture: bytes, longest_px: int = 160) -> bytes:
        """Shrink any picture, its proportions kept, and return it as PNG."""
        from PIL import Image

        with Image.open(io.BytesIO(picture)) as image:
            image.thumbnail((longest_px, longest_px))
            return _png(image)


class Reader(DirtyApp):
    """Finds and reads text: about a second of CPU for each picture, half a gigabyte of memory."""

    workers = 1

    def init(self) -> None:
        try:
            from rapidocr import RapidOCR
        except ImportError as exc:
            raise MissingExtra("rapidocr", "ocr", "reading pictures") from exc
        # more threads than free cores make it several times slower
        self._engine = RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": 1})

    def read(self, picture: bytes) -> list[str]:
        """Return the lines found, from the top to the bottom."""
        return list(self._engine(picture).txts or ())


def _png(image: Image.Image) -> bytes:
    target = io.BytesIO()
    image.save(target, format="PNG")
    return target.getvalue()


async def make(bus: DirtyBus, name: str, text: str, *, out: Path, ocr: bool) -> None:
    # one after the other here, but the posters are made side by side on both workers
    picture = await bus.ask(ExecutionRequested("images:Studio", "draw", args=(text,)))
    small = await bus.ask(ExecutionRequested("images:Studio", "thumbnail", args=(picture,)))
    (out / f"{name}.png").write_bytes(small)
    print(f"{name}.png: {len(picture):,} bytes became {len(small):,}")
    if ocr:
        lines = await bus.ask(InferenceRequested("images:Reader", "read", args=(picture,)))
        print(f"{name}.png reads:", *lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Draw posters and make thumbnails of them in workers.")
    arguments.add_argument("--out", type=Path, help="where the thumbnails go; without it, a new temporary directory")
    arguments.add_argument("--ocr", action="store_true", help="read the posters, too (pip install 'dirtybus[ocr]')")
    options = arguments.parse_args()
    if options.ocr and find_spec("rapidocr") is None:
        sys.exit(str(MissingExtra("rapidocr", "ocr", "--ocr")))
    out: Path = options.out or Path(tempfile.mkdtemp(prefix="thumbnails-"))
    out.mkdir(parents=True, exist_ok=True)

    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["images:Studio", *(["images:Reader"] if options.ocr else [])], workers=2)
    bus.install(manager, bcc)

    @bcc.receiver(ArbiterStarting)
    async def make_all() -> None:
        try:
            await asyncio.gather(*(make(bus, name, text, out=out, ocr=options.ocr) for name, text in POSTERS.items()))
            print(f"see {out}")
        finally:
            bus.post(ShutdownRequested("the thumbnails are made"))

    manager.launch_blocking()


if __name__ == "__main__":
    main()
