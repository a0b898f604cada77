"""The same from ordinary threads: one client of the process, shared by all requests.

Run it, in the directory examples:
    dirtybus run hello:Greeter --workers 2 --socket /tmp/dirtybus.sock
    DIRTYBUS_SOCKET=/tmp/dirtybus.sock gunicorn --worker-class gthread --threads 8 flask_app:app
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask import Flask, Response, request

from dirtybus import get_dirty_client
from dirtybus.errors import DirtyConnectionError, DirtyError, DirtyTimeoutError, Unavailable

app = Flask(__name__)


@app.errorhandler(DirtyError)
def tell(error: DirtyError) -> tuple[dict[str, Any], int]:
    """Say whose turn it is: come back later (503), too slow (504), or a bug in the app (500)."""
    later, slow = isinstance(error, (Unavailable, DirtyConnectionError)), isinstance(error, DirtyTimeoutError)
    return error.to_dict(), 503 if later else 504 if slow else 500


@app.post("/greet")
def greet() -> dict[str, str]:
    """Greet by name: curl -d name=Ada localhost:8000/greet."""
    return {"greeting": get_dirty_client().execute("hello:Greeter", "greet", request.form["name"])}


@app.get("/spell")
def spell() -> Response:
    """Stream words, a line each: curl -N 'localhost:8000/spell?text=one+two+three'."""
    words = get_dirty_client().stream("hello:Greeter", "spell", request.args["text"])

    def lines() -> Iterator[str]:
        # when the reader leaves, the server closes this generator, and `stream` closes the one in the worker
        for word in words:
            yield f"{word}\n"

    return Response(lines(), mimetype="text/plain")
