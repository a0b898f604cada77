"""A web service whose models live in other processes: as many web workers as you like, one copy of each model.

Run it, in the directory examples:
    dirtybus run inference:Classifier chat_stream:Chat hello:Greeter --workers 2 --socket /tmp/dirtybus.sock
    DIRTYBUS_SOCKET=/tmp/dirtybus.sock uvicorn fastapi_app:app
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from dirtybus import close_dirty_client_async, get_dirty_client_async
from dirtybus.errors import DirtyConnectionError, DirtyError, DirtyTimeoutError, Unavailable


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    await close_dirty_client_async()


app = FastAPI(title="dirtybus behind FastAPI", lifespan=lifespan)


@app.exception_handler(DirtyError)
async def tell(_: Request, error: DirtyError) -> JSONResponse:
    """Say whose turn it is: come back later (503), too slow (504), or a bug in the app (500)."""
    later, slow = isinstance(error, (Unavailable, DirtyConnectionError)), isinstance(error, DirtyTimeoutError)
    headers = {"Retry-After": "1"} if later else None
    return JSONResponse(error.to_dict(), status_code=503 if later else 504 if slow else 500, headers=headers)


@app.post("/classify")
async def classify(request: Request) -> Any:
    """Tell what is in the body: curl --data-binary @FILE localhost:8000/classify."""
    client = await get_dirty_client_async()
    return await client.execute_async("inference:Classifier", "classify", await request.body())


@app.get("/spell")
async def spell(text: str) -> StreamingResponse:
    """Stream the words of ``text``: a stand-in for /chat that needs no model."""
    return server_sent(await first_of("hello:Greeter", "spell", text))


@app.get("/chat")
async def chat(prompt: str, max_tokens: int = 60) -> StreamingResponse:
    """Stream the model's answer: curl -N 'localhost:8000/chat?prompt=Hello'."""
    return server_sent(await first_of("chat_stream:Chat", "reply", prompt, max_tokens))


async def first_of(app_path: str, action: str, *args: Any) -> AsyncIterator[str]:
    """Start a stream and wait for its first chunk, while a failure can still become an honest status code."""
    client = await get_dirty_client_async()
    chunks = client.stream_async(app_path, action, *args)
    first = await anext(chunks, None)

    async def all_of_it() -> AsyncIterator[str]:
        try:
            if first is not None:
                yield first
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()  # the browser left: the generator in the worker is closed, too

    return all_of_it()


def server_sent(chunks: AsyncIterator[str]) -> StreamingResponse:
    """Send each chunk as a server-sent event of JSON; ``done`` or ``failed`` is the last."""

    async def events() -> AsyncIterator[str]:
        try:
            async for chunk in chunks:
                yield f"data: {json.dumps(chunk)}\n\n"
        except DirtyError as exc:  # the status line has left long ago
            yield f"event: failed\ndata: {json.dumps(exc.to_dict(), default=str)}\n\n"
        else:
            yield "event: done\ndata: null\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
