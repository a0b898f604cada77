"""One test for each way in which a plain Launart alone hangs, ends too early, or ends with exit code 0."""

from __future__ import annotations

from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import pytest

from tests.services.harness import Ended, run

#: from the first to the last, as each must be gone before what it stands on
CLEANUP = ("drain begun", "admission closed", "workers drained clean=True", "arbiter closed", "db cleaned")


def assert_in_order(ended: Ended, *wanted: str) -> None:
    assert ended.order(*wanted) == list(wanted), f"{ended.lines}\n{ended.log}"


@pytest.mark.parametrize("signum", [SIGINT, SIGTERM])
async def test_a_signal_ends_cooperating_services_in_reverse_order_with_code_0(signum: Signals, log: Path) -> None:
    ended = await run("cooperating", signum, log=log)
    assert ended.code == 0
    assert_in_order(ended, *CLEANUP)
    assert_in_order(ended, "drain ended clean=True", "web cleaned", "db cleaned", "returned")
    assert f"{signum.name} received" in ended.log
    assert "Ctrl-C" not in ended.log


async def test_a_service_that_ignores_the_exit_is_cancelled_and_the_others_clean_up(log: Path) -> None:
    ended = await run("ignores_exit", SIGTERM, log=log)
    assert ended.code == 1
    assert_in_order(ended, *CLEANUP)
    assert "service deaf is cancelled: still blocking" in ended.log


async def test_a_service_without_a_cleanup_that_ignores_the_exit_holds_up_nobody(log: Path) -> None:
    ended = await run("ignores_exit_without_cleanup", SIGTERM, log=log)
    assert ended.code == 1
    assert_in_order(ended, *CLEANUP)


async def test_a_service_that_even_swallows_its_cancellation_is_left_behind(log: Path) -> None:
    ended = await run("swallows_cancel", SIGTERM, log=log)
    assert ended.code == 1
    assert_in_order(ended, "drain begun", "arbiter closed", "db cleaned")
    assert "going on without it" in ended.log


async def test_a_cleanup_without_an_end_is_cancelled_and_the_ones_below_still_run(log: Path) -> None:
    ended = await run("cleans_for_ever", SIGTERM, log=log)
    assert ended.code == 1
    assert_in_order(ended, "web cleaned", "db cleaned")
    assert "service slow is cancelled: its cleanup took over" in ended.log


async def test_a_signal_while_preparing_kills_what_starts_and_cleans_up_what_had_prepared(log: Path) -> None:
    ended = await run("slow_boot", SIGTERM, log=log, after="workers start")
    assert ended.code == 0
    assert_in_order(ended, "workers start", "arbiter killed", "arbiter closed", "db cleaned")
    assert not ended.order("workers ready", "admission open")


async def test_a_failed_prepare_alone_ends_with_code_1(log: Path) -> None:
    ended = await run("prepare_fails_alone", log=log)
    assert ended.code == 1
    assert "crashed on purpose" in ended.log


async def test_a_failed_prepare_cleans_up_the_prepared_and_starts_nothing_more(log: Path) -> None:
    ended = await run("prepare_fails_beside_prepared", log=log)
    assert ended.code == 1
    assert_in_order(ended, "good cleaned", "db cleaned")
    assert not ended.order("second was asked to prepare", "admission open", "returned")


@pytest.mark.parametrize("name", ["crashes_before_first_stage", "returns_without_stages"])
async def test_a_service_that_ends_before_its_first_stage_ends_the_application(name: str, log: Path) -> None:
    ended = await run(name, log=log)
    assert ended.code == 1
    assert "service bad failed" in ended.log
    assert not ended.order("admission open")


async def test_workers_that_do_not_boot_end_the_application_in_order(log: Path) -> None:
    ended = await run("boot_fails", log=log)
    assert ended.code == 1
    assert_in_order(ended, "workers start", "arbiter killed", "arbiter closed", "db cleaned")
    assert "model.bin is not there" in ended.log


async def test_a_crash_while_blocking_ends_the_application_in_reverse_order(log: Path) -> None:
    ended = await run("blocking_fails", log=log)
    assert ended.code == 1
    assert_in_order(ended, "drain begun", "top cleaned", "db cleaned")
    assert_in_order(ended, *CLEANUP)


async def test_a_crash_while_cleaning_up_does_not_hurry_the_layer_below(log: Path) -> None:
    ended = await run("cleanup_fails", SIGTERM, log=log)
    assert ended.code == 1
    assert_in_order(ended, "slow cleaned", "db cleaned")


async def test_an_application_in_which_nothing_blocks_ends_at_once_with_code_0(log: Path) -> None:
    ended = await run("nothing_blocks", log=log)
    assert ended.code == 0
    assert_in_order(ended, "db prepared", "db cleaned", "returned")


async def test_an_unknown_requirement_is_named_before_anything_starts(log: Path) -> None:
    ended = await run("unknown_required", log=log)
    assert ended.code == 1
    assert "service 'bad' requires 'nobody', which is not among the services" in ended.log
    assert not ended.lines


async def test_sys_exit_in_a_service_ends_in_order_with_its_code(log: Path) -> None:
    ended = await run("sys_exit", log=log)
    assert ended.code == 3
    assert_in_order(ended, *CLEANUP)


async def test_a_keyboard_interrupt_in_a_service_ends_in_order_with_code_130(log: Path) -> None:
    ended = await run("keyboard_interrupt", log=log)
    assert ended.code == 130
    assert_in_order(ended, *CLEANUP)


async def test_a_service_that_cancels_itself_has_failed(log: Path) -> None:
    ended = await run("cancels_itself", log=log)
    assert ended.code == 1
    assert_in_order(ended, *CLEANUP)


async def test_a_pool_that_gives_up_ends_the_application_in_order(log: Path) -> None:
    ended = await run("pool_gives_up", log=log)
    assert ended.code == 1
    assert_in_order(ended, *CLEANUP)


async def test_a_shutdown_asked_on_the_bus_ends_in_order_with_code_0(log: Path) -> None:
    ended = await run("shutdown_on_the_bus", log=log)
    assert ended.code == 0
    assert_in_order(ended, *CLEANUP)
    assert "shutdown asked by a test" in ended.log
