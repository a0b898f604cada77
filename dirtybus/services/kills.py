"""The kills: what to call when there is no time left for anything that awaits. Knows not when that is."""

from __future__ import annotations

from collections.abc import Callable

from loguru import logger

__all__ = ["Kills"]


class Kills:
    """One synchronous last resort a service, each called at most once; what it raises is logged."""

    def __init__(self) -> None:
        self._kills: dict[str, Callable[[], object]] = {}

    def __contains__(self, service_id: str) -> bool:
        return service_id in self._kills

    def add(self, service_id: str, kill: Callable[[], object]) -> None:
        self._kills[service_id] = kill

    def forget(self, service_id: str) -> None:
        """The service has ended in order: there is nothing to kill any more."""
        self._kills.pop(service_id, None)

    def call(self, service_id: str) -> None:
        """Kill this service, if there is something left to kill."""
        kill = self._kills.pop(service_id, None)
        if kill is None:
            return
        try:
            kill()
        except Exception:
            logger.exception("service {} could not be killed", service_id)

    def call_all(self) -> None:
        """Kill all, the last added first."""
        for service_id in reversed(list(self._kills)):
            self.call(service_id)
