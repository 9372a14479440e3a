"""``open_process``: streams, exit codes and signals, also next to commands and background processes."""

import asyncio
import signal

import pytest
from turnwise.sandbox.errors import StreamError, StreamTimeout
from turnwise.sandbox.sandbox import Sandbox
from turnwise.tests.sandbox.streams.sandboxes import in_sandbox, read_all


def test_pipes_and_exit_code() -> None:
    async def work(sandbox: Sandbox) -> None:
        process = await sandbox.open_process(["sh", "-c", "read a; echo $a $B; echo c >&2; cat; exit 3"], timeout_s=5)
        await process.send(b"one\n", timeout_s=5)
        assert await process.receive(timeout_s=5) == b"one\n"
        with pytest.raises(StreamTimeout, match="sent nothing"):
            await process.receive(timeout_s=0.05)
        assert process.exit_code is None
        await process.send(b"rest", timeout_s=5)
        await process.end_input()
        assert (await read_all(process), await read_all(process, 1)) == (b"rest", b"c\n")
        assert await process.wait(timeout_s=5) == 3

    in_sandbox(work)


def test_signals_and_failed_starts_have_their_codes() -> None:
    async def work(sandbox: Sandbox) -> None:
        process = await sandbox.open_process(["sleep", "60"], timeout_s=5)
        with pytest.raises(StreamTimeout, match="did not exit"):
            await process.wait(timeout_s=0.05)
        await process.send_signal(signal.SIGTERM)
        assert await process.wait(timeout_s=5) == -signal.SIGTERM
        await process.send_signal(signal.SIGTERM)
        missing = await sandbox.open_process(["no-such-program"], timeout_s=5)
        assert await missing.wait(timeout_s=5) == 127
        assert b"no-such-program" in await read_all(missing, 1)

    in_sandbox(work)


def test_output_before_the_exit_is_complete_and_a_background_process_delays_no_end() -> None:
    async def work(sandbox: Sandbox) -> None:
        script = "head -c 1000000 /dev/zero; sleep 60 & exit 0"
        process = await sandbox.open_process(["sh", "-c", script], timeout_s=5)
        assert len(await read_all(process)) == 1_000_000
        assert await process.wait(timeout_s=5) == 0

    in_sandbox(work)


def test_commands_do_not_take_the_exit_code_of_a_process() -> None:
    async def work(sandbox: Sandbox) -> None:
        processes = [await sandbox.open_process(["sh", "-c", f"read a; exit {code}"], timeout_s=5) for code in range(8)]
        for process in processes:
            await process.send(b"\n", timeout_s=5)
            await sandbox.exec(["sh", "-c", "true & sleep 0.01"], timeout_s=5)
        assert [await process.wait(timeout_s=5) for process in processes] == list(range(8))

    in_sandbox(work)


def test_close_kills_the_process_with_its_children() -> None:
    async def work(sandbox: Sandbox) -> None:
        process = await sandbox.open_process(["sh", "-c", "sleep 61.7 & sleep 61.7"], timeout_s=5)
        while (await sandbox.exec(["pgrep", "-cf", "sleep 61.7"], timeout_s=5)).stdout != b"3\n":
            await asyncio.sleep(0.02)
        process.close()
        while (await sandbox.exec(["pgrep", "-f", "sleep 61.7"], timeout_s=5)).stdout:
            await asyncio.sleep(0.02)

    in_sandbox(work)


def test_closed_input_of_a_program_is_reported() -> None:
    async def work(sandbox: Sandbox) -> None:
        process = await sandbox.open_process(["sh", "-c", "exec <&-; sleep 60"], timeout_s=5)
        with pytest.raises(StreamError, match="closed its input"):
            await process.send(bytes(1 << 20), timeout_s=5)

    in_sandbox(work)
