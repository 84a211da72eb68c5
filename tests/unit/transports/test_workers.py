"""Workers: how many at once, in which order, and what abandoning a task frees."""

import threading
from collections.abc import Callable

import pytest

from colabhive_mcp.transports.workers import Lane

PATIENCE = 10.0


class Task:
    """A task that says that it has begun, and ends when it is let go."""

    def __init__(self, begun: threading.Semaphore, *, held: bool = True) -> None:
        self._begun = begun
        self.gate = threading.Event()
        self.done = threading.Event()
        self.thread: threading.Thread | None = None
        if not held:
            self.gate.set()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self._begun.release()
        assert self.gate.wait(PATIENCE)
        self.done.set()


class Crew:
    """A lane and the tasks that it was given."""

    def __init__(self, limit: int) -> None:
        self.lane = Lane("test", limit)
        self.begun = threading.Semaphore(0)
        self.tasks: list[Task] = []

    def submit(self, count: int, *, held: bool = True) -> list[Task]:
        """Give the lane that many tasks."""
        tasks = [Task(self.begun, held=held) for _ in range(count)]
        self.tasks += tasks
        for task in tasks:
            self.lane.submit(task)
        return tasks

    def wait_begun(self, count: int) -> None:
        """Wait until that many more have begun, and see that no other has."""
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)

    def wait_idle(self) -> None:
        """Wait until a thread is at rest."""
        bell = threading.Event()
        for _ in range(int(PATIENCE * 1000)):
            if self.lane._spare > 0:
                return
            bell.wait(0.001)
        raise AssertionError("no thread came to rest")

    def release(self) -> None:
        """Let all go and wait for their end."""
        for task in self.tasks:
            task.gate.set()
        for task in self.tasks:
            assert task.done.wait(PATIENCE)


@pytest.fixture
def crew(request: pytest.FixtureRequest) -> Crew:
    """A crew of 32, or of as many as the test asks for."""
    return Crew(getattr(request, "param", 32))


def test_a_burst_starts_a_thread_each(crew: Crew) -> None:
    """Tasks that come at once run at once, up to the limit."""
    tasks = crew.submit(32)
    crew.wait_begun(32)
    assert len({task.thread for task in tasks}) == 32
    crew.release()


def test_bursts_after_a_rest(crew: Crew) -> None:
    """A burst that meets idle threads uses them, and starts as many more as it takes."""
    for size in (1, 5, 32, 7, 32):
        crew.submit(size)
        crew.wait_begun(size)
        crew.release()
    assert len({task.thread for task in crew.tasks}) <= 32


def test_threads_are_made_when_they_are_needed(crew: Crew) -> None:
    """One task after the other needs few threads, and none is made in advance."""
    assert crew.lane._threads == 0
    for _ in range(20):
        (task,) = crew.submit(1, held=False)
        assert task.done.wait(PATIENCE)
        crew.wait_idle()
    assert len({task.thread for task in crew.tasks}) == 1


@pytest.mark.parametrize("crew", [1, 2, 3], indirect=True)
def test_no_more_than_the_limit(crew: Crew) -> None:
    """What is over the limit waits until a place is free."""
    limit = crew.lane._limit
    tasks = crew.submit(limit + 2)
    crew.wait_begun(limit)
    assert crew.lane._threads == limit
    tasks[0].gate.set()
    crew.wait_begun(1)
    assert crew.lane._threads == limit
    crew.release()


@pytest.mark.parametrize("crew", [1], indirect=True)
def test_tasks_run_in_their_order(crew: Crew) -> None:
    """What waits is run in the order in which it came."""
    order: list[int] = []
    (first,) = crew.submit(1)
    crew.wait_begun(1)
    last = threading.Event()

    def note(number: int) -> Callable[[], None]:
        return lambda: order.append(number)

    for number in range(20):
        crew.lane.submit(note(number))
    crew.lane.submit(last.set)
    first.gate.set()
    assert last.wait(PATIENCE)
    assert order == list(range(20))


@pytest.mark.parametrize("crew", [1, 2, 4], indirect=True)
def test_abandoning_frees_a_place(crew: Crew) -> None:
    """A task that nobody waits for no longer holds up those behind it."""
    limit = crew.lane._limit
    tasks = crew.submit(limit)
    crew.wait_begun(limit)
    behind = crew.submit(limit)
    for number, task in enumerate(tasks):
        crew.lane.abandon(task)
        crew.wait_begun(1)
        assert behind[number].thread is not None
    crew.release()


@pytest.mark.parametrize("crew", [2], indirect=True)
def test_the_limit_holds_again_after_abandoning(crew: Crew) -> None:
    """When abandoned tasks end, their threads are too many and go: never do more than the limit count at a time."""
    tasks = crew.submit(2)
    crew.wait_begun(2)
    for task in tasks:
        crew.lane.abandon(task)
    behind = crew.submit(4)
    crew.wait_begun(2)
    for task in tasks:
        task.gate.set()
        assert task.done.wait(PATIENCE)
        assert task.thread is not None
        task.thread.join(PATIENCE)
        assert not task.thread.is_alive()
    assert not crew.begun.acquire(blocking=False)
    behind[0].gate.set()
    crew.wait_begun(1)
    crew.release()


@pytest.mark.parametrize("crew", [1], indirect=True)
def test_abandoning_is_bounded(crew: Crew) -> None:
    """At most as many as the limit are abandoned at a time, so that a hanging gateway cannot eat threads for ever."""
    first, second, third = crew.submit(3)
    crew.wait_begun(1)
    crew.lane.abandon(first)
    crew.wait_begun(1)
    crew.lane.abandon(second)
    assert crew.lane._threads == 2
    first.gate.set()
    second.gate.set()
    crew.wait_begun(1)
    assert third.thread is not None
    crew.release()


@pytest.mark.parametrize("crew", [1], indirect=True)
def test_abandoning_what_does_not_run(crew: Crew) -> None:
    """A task that has not begun, or has ended, or was abandoned before, frees nothing."""
    first, second = crew.submit(2)
    crew.wait_begun(1)
    crew.lane.abandon(second)
    crew.lane.abandon(Task(crew.begun))
    assert not crew.begun.acquire(blocking=False)
    crew.release()
    crew.lane.abandon(first)
    crew.submit(2)
    crew.begun.acquire()
    crew.wait_begun(1)
    assert not crew.begun.acquire(blocking=False)
    crew.release()


def test_an_ended_task_is_let_go() -> None:
    """A thread at rest keeps nothing of its last task, which may hold megabytes."""
    import gc
    import weakref

    crew = Crew(1)
    (task,) = crew.submit(1, held=False)
    assert task.done.wait(PATIENCE)
    gone = threading.Event()
    weakref.finalize(task, gone.set)
    crew.tasks.clear()
    del task
    gc.collect()
    assert gone.wait(PATIENCE)


def test_many_threads_submit() -> None:
    """Tasks that come from many threads at once are all run, once."""
    lane = Lane("test", 4)
    ran: list[int] = []
    all_ran = threading.Semaphore(0)

    def note(number: int) -> Callable[[], None]:
        def work() -> None:
            ran.append(number)
            all_ran.release()

        return work

    def give(start: int) -> None:
        for number in range(start, start + 50):
            lane.submit(note(number))

    givers = [threading.Thread(target=give, args=(start,)) for start in range(0, 400, 50)]
    for giver in givers:
        giver.start()
    for giver in givers:
        giver.join(PATIENCE)
    for _ in range(400):
        assert all_ran.acquire(timeout=PATIENCE)
    assert sorted(ran) == list(range(400))
