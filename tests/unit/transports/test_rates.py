"""Rates: who may ask how often, counted here and in a real Redis."""

import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.telemetry.events import Event, discard
from colabhive_mcp.transports.rates import LEFT_ALONE, PATIENCE, TOLD_EVERY, Rates

KEY, OTHER = "a" * 64, "b" * 64
PASSWORD = "s3cr3t/word"
WRONG_PASSWORD = "n0t-the-w0rd"
STARTS = 10.0


class Clock:
    """A clock that is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Redis:
    """A real Redis on *port* of 127.0.0.1, that keeps nothing."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        unix = ["--unixsocket", str(folder / "redis.sock")]
        self.url = f"redis://127.0.0.1:{port}/0"
        self.unix = f"unix://{folder / 'redis.sock'}"
        self._process = subprocess.Popen([*command, *unix, *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        lines = iter(self._process.stdout.readline, "")
        assert any("Ready to accept connections" in line for line in lines)

    def stop(self) -> None:
        """End it, by its own process id; more than once does no harm."""
        self._process.kill()
        self._process.wait(STARTS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def find_port() -> int:
    """One that is free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


Start = Callable[..., Redis]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a Redis with some options, on a free port or on the one given; each is stopped at the end."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian's package of that name)")
    with ExitStack() as stack:

        def start(*options: str, port: int = 0) -> Redis:
            server = Redis(tmp_path_factory.mktemp("redis"), port or find_port(), *options)
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="module")
def redis(start: Start) -> Redis:
    """A Redis for all tests that leave it running; each uses a limit of its own."""
    return start()


@pytest.fixture
def quiet() -> Iterator[socket.socket]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def to_url(server: socket.socket) -> str:
    """Where *server* would be asked as a Redis."""
    return f"redis://127.0.0.1:{server.getsockname()[1]}"


def test_without_a_limit_everything_is_allowed() -> None:
    """No limit is no count, and loads no library."""
    assert Rates(None, storage="redis://unused", record=discard).check(KEY, 10**9) is None


def test_a_key_may_ask_as_often_as_the_limit_says_and_no_other_key_pays_for_it() -> None:
    """The limit holds for each key by itself."""
    rates = Rates("3/1 minute", storage=None, record=discard, clock=Clock())
    assert [rates.check(KEY) is None for _ in range(4)] == [True, True, True, False]
    assert rates.check(OTHER) is None


def test_what_is_refused_does_not_count() -> None:
    """A client that goes on asking is not punished for it."""
    clock = Clock()
    rates = Rates("2/1 minute", storage=None, record=discard, clock=clock)
    waits = [rates.check(KEY) for _ in range(50)]
    clock.now += waits[-1] or 0
    assert rates.check(KEY) is None


@given(
    limit=st.integers(1, 12),
    cost=st.integers(1, 12),
    steps=st.lists(st.tuples(st.floats(0, 70), st.integers(1, 12)), max_size=30),
)
def test_the_wait_is_as_long_as_needed_and_no_longer(limit: int, cost: int, steps: list[tuple[float, int]]) -> None:
    """After the wait that is told the requests are let through, and half a second earlier they are not."""
    clock = Clock(1000.0)
    rates = Rates(f"{limit}/1 minute", storage=None, record=discard, clock=clock)
    for pause, each in steps:
        clock.now += pause
        rates.check(KEY, each)
    wait = rates.check(KEY, cost)
    if wait is None or cost > limit:
        return
    assert 0 < wait <= 120
    clock.now += max(0.0, wait - 0.5)
    assert wait < 0.5 or rates.check(KEY, cost) is not None
    clock.now += min(wait, 0.5)
    assert rates.check(KEY, cost) is None


@given(steps=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), max_size=60))
def test_no_window_sees_more_than_the_limit(steps: list[tuple[float, int]]) -> None:
    """Whatever the pauses are, no minute by the clock takes more than the limit, and none two limits in a burst."""
    clock = Clock()
    rates = Rates("10/1 minute", storage=None, record=discard, clock=clock)
    made: list[tuple[float, int]] = []
    for pause, cost in steps:
        clock.now += pause
        if rates.check(KEY, cost) is None:
            made.append((clock.now, cost))
    for start, _ in made:
        assert sum(cost for at, cost in made if at // 60 == start // 60) <= 10
        assert sum(cost for at, cost in made if start <= at < start + 6) <= 11


def test_more_than_the_limit_at_once_is_never_allowed() -> None:
    """A batch of more requests than the limit is refused, also by a key that has not asked yet."""
    rates = Rates("3/5 minute", storage=None, record=discard, clock=Clock())
    assert rates.check(KEY, 4) == 300
    assert rates.check(KEY, 3) is None


def test_many_threads_share_one_count_exactly(redis: Redis) -> None:
    """Of requests at the same time as many are let through as the limit allows, here and in a Redis."""
    for storage in (None, redis.url):
        rates = Rates("50/7 day", storage=storage, record=discard)
        allowed: list[bool] = []

        def ask(rates: Rates = rates, allowed: list[bool] = allowed) -> None:
            allowed.extend([rates.check(KEY) is None for _ in range(20)])

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (sum(allowed), len(allowed)) == (50, 160)


def test_two_relays_share_what_a_redis_counts(redis: Redis) -> None:
    """The limit holds over all relays with the same Redis, over TCP as over a socket file, and the wait is told."""
    one, other = (Rates("4/1 hour", storage=url, record=discard) for url in (redis.url, redis.unix))
    assert [rates.check(KEY, 2) for rates in (one, other)] == [None, None]
    for rates in (one, other):
        wait = rates.check(KEY)
        assert wait is not None
        assert 3590 < wait <= 3601


def test_in_a_redis_the_wait_is_enough(redis: Redis) -> None:
    """Whoever waits as long as was told is let through."""
    rates = Rates("20/1 second", storage=redis.url, record=discard)
    assert rates.check(KEY, 20) is None
    wait = rates.check(KEY)
    assert wait is not None
    threading.Event().wait(wait)
    assert rates.check(KEY) is None


def test_requests_are_let_through_while_the_redis_is_down(start: Start) -> None:
    """A Redis that stops costs no request, is told once a minute, and counts again when it is back."""
    port, clock = find_port(), Clock()
    told: list[Event] = []
    server = start(port=port)
    rates = Rates("1/1 hour", storage=server.url, record=told.append, clock=clock)
    assert rates.check(KEY) is None
    assert rates.check(KEY) is not None
    server.stop()
    for _ in range(3):
        assert rates.check(KEY) is None
        clock.now += LEFT_ALONE
    assert len(told) == 1
    assert "cannot be reached" in str(told[0])
    clock.now += TOLD_EVERY
    assert rates.check(KEY) is None
    assert len(told) == 2
    start(port=port)
    clock.now += LEFT_ALONE
    assert [rates.check(KEY) is None for _ in range(2)] == [True, False]


def test_no_request_waits_long_for_a_redis_that_does_not_answer(quiet: socket.socket) -> None:
    """A Redis that hangs holds nobody up for more than a quarter of a second, and then nobody for a while."""
    told: list[Event] = []
    rates = Rates("1/1 hour", storage=to_url(quiet), record=told.append)
    waits: list[float] = []

    def ask() -> None:
        started = time.monotonic()
        assert rates.check(KEY) is None
        waits.append(time.monotonic() - started)

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waits) == 40
    assert max(waits) < PATIENCE + 0.1
    started = time.monotonic()
    assert [rates.check(KEY) for _ in range(1000)] == [None] * 1000
    assert time.monotonic() - started < PATIENCE
    assert len(told) == 1
    assert "does not answer in time" in str(told[0])


def test_a_redis_that_refuses_the_password_is_told_without_it(start: Start) -> None:
    """The right password is used, a wrong one let through and told; no event holds any of it."""
    server = start("--requirepass", PASSWORD)
    told: list[Event] = []
    url = server.url.replace("//", "//:{}@")
    right = Rates("1/1 hour", storage=url.format(PASSWORD.replace("/", "%2F")), record=told.append)
    assert [right.check(KEY) is None for _ in range(2)] == [True, False]
    assert not told
    wrong = Rates("1/1 hour", storage=url.format(WRONG_PASSWORD), record=told.append)
    assert [wrong.check(KEY) for _ in range(2)] == [None, None]
    assert len(told) == 1
    assert "refuses the user or the password" in str(told[0])
    assert WRONG_PASSWORD not in str(told[0])


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}@127.0.0.1",
        f"redis://:{WRONG_PASSWORD}@127.0.0.1:port",
        f"redis://:{WRONG_PASSWORD}@127.0.0.1?unknown=1",
        f"rediss://:{WRONG_PASSWORD}@127.0.0.1?ssl_cert_reqs=what",
        f"memcached://:{WRONG_PASSWORD}@127.0.0.1",
    ],
)
def test_a_wrong_url_refuses_to_start(url: str) -> None:
    """A URL that can never work is an error at the start, which does not repeat it."""
    with pytest.raises(ConfigError, match="must be the URL of a Redis") as error:
        Rates("1/1 hour", storage=url, record=discard)
    shown = "".join(traceback.format_exception(error.value))
    assert not [part for part in (PASSWORD[:6], WRONG_PASSWORD, "unknown") if part in shown]


@pytest.mark.parametrize("package", ["redis", "limits"])
def test_a_missing_package_is_named_with_what_to_do(package: str) -> None:
    """Without what a Redis needs the start is refused, and the words say how to get it."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from colabhive_mcp.transports.rates import Rates\n"
        "Rates('1/1 hour', storage=None, record=print).check('key')\n"
        "Rates('1/1 hour', storage='redis://127.0.0.1', record=print)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STARTS, check=False)
    assert "ConfigError" in done.stderr
    assert "pip install 'colabhive-mcp[redis]'" in done.stderr.splitlines()[-1]
