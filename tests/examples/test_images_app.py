"""The studio without any bus, with the real Pillow."""

from __future__ import annotations

import io

import pytest

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.interop

from images import Reader, Studio  # noqa: E402 - only where Pillow is installed

from dirtybus.errors import MissingExtra  # noqa: E402


@pytest.fixture(scope="module")
def studio() -> Studio:
    app = Studio()
    app.init()
    return app


def size_of(picture: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(picture)) as image:
        assert image.format == "PNG"
        width, height = image.size
        return width, height


def test_a_poster_has_the_size_asked_for(studio: Studio) -> None:
    assert size_of(studio.draw("HELLO", width_px=300, height_px=200)) == (300, 200)


def test_different_words_make_different_posters(studio: Studio) -> None:
    assert studio.draw("ONE") == studio.draw("ONE") != studio.draw("TWO")


def test_a_thumbnail_keeps_the_proportions(studio: Studio) -> None:
    poster = studio.draw("HELLO", width_px=800, height_px=400)
    assert size_of(studio.thumbnail(poster, longest_px=100)) == (100, 50)


def test_a_thumbnail_is_never_larger_than_its_picture(studio: Studio) -> None:
    small = studio.draw("x", width_px=40, height_px=30)
    assert size_of(studio.thumbnail(small)) == (40, 30)


def test_the_reader_reads_a_poster_or_names_the_extra(studio: Studio) -> None:
    reader = Reader()
    try:
        import rapidocr  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match=r"pip install 'dirtybus\[ocr\]'"):
            reader.init()
    else:
        reader.init()
        assert "".join(reader.read(studio.draw("NOTHING LOST"))).replace(" ", "") == "NOTHINGLOST"
