"""Work beside an event loop: threads are used again, hanging ones hinder nobody, a forked child begins with none."""

import asyncio
import threading

import pytest

from midstride import threads
from midstride.testing.conformance import process
from midstride.threads import in_thread


def test_a_thread_that_has_done_its_work_does_more():
    async def several():
        return {await in_thread(threading.get_ident) for _ in range(50)}

    assert len(asyncio.run(several())) < 25  # one that has just told its result is not always free yet


def test_what_hangs_hinders_nobody():
    go_on = threading.Event()

    async def many():
        hanging = [asyncio.ensure_future(in_thread(go_on.wait)) for _ in range(threads.IDLE_MAX + 20)]
        assert await in_thread(int, "7") == 7
        go_on.set()
        return await asyncio.gather(*hanging)

    assert set(asyncio.run(many())) == {True}
    assert len(threads._threads._idle) <= threads.IDLE_MAX


def test_what_it_raises_is_raised_and_the_thread_does_more():
    async def failing():
        used = set()
        for _ in range(50):
            with pytest.raises(ZeroDivisionError):
                await in_thread(lambda: used.add(threading.get_ident()) or 1 // 0)
        return used

    assert len(asyncio.run(failing())) < 25


def test_a_thread_that_nobody_needs_ends(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)

    async def one():
        return await in_thread(threading.current_thread)

    thread = asyncio.run(one())
    thread.join(30)
    assert not thread.is_alive()
    assert asyncio.run(one()) is not thread


@pytest.mark.parametrize("lane", [None, "store"])
def test_a_forked_child_begins_with_none(lane):
    async def one():
        return await in_thread(int, "7", lane=lane)

    assert asyncio.run(one()) == 7
    with process(lambda: asyncio.run(one())):
        pass


def test_a_wait_that_is_cancelled_ends_when_the_work_has():
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert go_on.wait(30)
        ended.append(True)

    async def cancelled():
        waiting = asyncio.ensure_future(in_thread(work))
        assert await in_thread(begun.wait, 30)
        waiting.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended == [True]

    asyncio.run(cancelled())


# ---- lanes


MANY = threads.LANE_WIDTH + 20


def test_a_lane_does_a_few_things_at_once_and_first_what_came_first():
    begun, go_on, most = [], threading.Event(), []

    def work(number):
        begun.append(number)
        most.append(len(begun) - len(ended))
        assert go_on.wait(30)
        ended.append(number)
        return number

    async def many():
        works = [asyncio.ensure_future(in_thread(work, number, lane="store")) for number in range(MANY)]
        while len(begun) < threads.LANE_WIDTH:
            await asyncio.sleep(0)
        assert sorted(begun) == list(range(threads.LANE_WIDTH))
        go_on.set()
        return await asyncio.gather(*works)

    ended = []
    assert asyncio.run(many()) == list(range(MANY))
    assert max(most) <= threads.LANE_WIDTH + 1  # one that has ended is counted a moment later


def test_a_lane_in_which_all_hangs_hinders_no_other():
    go_on = threading.Event()

    async def many():
        hanging = [asyncio.ensure_future(in_thread(go_on.wait, lane="one")) for _ in range(MANY)]
        assert await in_thread(int, "7", lane="another") == 7
        assert await in_thread(int, "8") == 8
        go_on.set()
        return await asyncio.gather(*hanging)

    assert set(asyncio.run(many())) == {True}


class Threads(list):
    """A thread for each piece of work."""

    def begin(self, work):
        self.append(threading.Thread(target=work))
        self[-1].start()


def test_a_lane_is_forgotten_when_all_is_done():
    made, done = Threads(), []
    lanes = threads._Lanes(made)
    for number in range(MANY):
        lanes.begin("store", lambda number=number: done.append(number))
    for thread in made:
        thread.join(30)
    assert (sorted(done), lanes._lanes) == (list(range(MANY)), {})


class NoThreads:
    """No thread can be made."""

    def begin(self, work):
        raise RuntimeError("can't start new thread")


def test_work_for_which_no_thread_can_be_made_is_refused_and_not_kept():
    lanes = threads._Lanes(NoThreads())
    for _ in range(threads.LANE_WIDTH + 1):
        with pytest.raises(RuntimeError, match="can't start"):
            lanes.begin("store", lambda: None)
    assert lanes._lanes == {}


def test_work_is_done_though_no_second_thread_can_be_made():
    go_on, done, made = threading.Event(), [], Threads()
    lanes = threads._Lanes(made)
    lanes.begin("store", lambda: go_on.wait(30))
    lanes._threads = NoThreads()
    with pytest.raises(RuntimeError, match="can't start"):
        lanes.begin("store", lambda: done.append("refused"))
    lanes._threads = made
    lanes.begin("store", lambda: done.append("begun"))
    go_on.set()
    for thread in made:
        thread.join(30)
    assert (done, lanes._lanes) == (["begun"], {})
