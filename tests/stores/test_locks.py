"""The lease between real processes."""

import os
import signal
import threading
from contextlib import closing, suppress

import pytest

from midstride.core.journal import Head, Taken, seal
from midstride.errors import Held, StoreError
from midstride.stores import CheckpointStore, locks
from midstride.testing.conformance import process
from stores.places import at_once, become_nobody, open_folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db.lock"


def take(path, *, take_over=False, byte=16, newest=lambda: None, among=None):
    among = set() if among is None else among
    return locks.take(path, byte, "run", among=among, newest=newest, take_over=take_over)


def is_held_by(path, pid):
    with pytest.raises(Held) as caught:
        take(path)
    return caught.value.holder.pid == pid


def test_of_twenty_processes_exactly_one_gets_the_lease(path):
    words = at_once(20, lambda: str(take(path).held()))
    assert sorted(words) == ["Held"] * 19 + ["True"]


def test_a_killed_holder_leaves_nothing_behind(path):
    with process(lambda: take(path)) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert take(path).held()


def test_a_pid_in_the_lock_file_means_nothing(path):
    path.write_text(str(os.getppid()))
    assert take(path).held()


def test_a_holder_that_the_journal_knows_is_named_with_its_time(path):
    with process(lambda: take(path)) as pid:
        (entry,) = seal([Taken(1, "build-7", pid)], Head(), 1_700_000_000.0)
        with pytest.raises(Held, match=f"pid {pid} on build-7, since 2023-11-14 22:13:20 UTC, which lives"):
            take(path, newest=lambda: entry)


def test_a_holder_is_named_though_the_journal_cannot_be_read(path):
    def unreadable():
        raise StoreError("no disk")

    with process(lambda: take(path)) as pid:
        with pytest.raises(Held, match=f"pid {pid} on .*, which lives"):
            take(path, newest=unreadable)


def test_a_holder_that_ends_at_sigterm_is_not_killed(path):
    with process(lambda: take(path)) as pid:
        assert take(path, take_over=True).held()
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM


def test_a_stopped_holder_is_killed(path, monkeypatch):
    monkeypatch.setattr(locks, "GRACE_SECONDS", 0.05)
    with process(lambda: take(path)) as pid:
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert take(path, take_over=True).held()
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_a_holder_that_ignores_sigterm_is_killed(path, monkeypatch):
    monkeypatch.setattr(locks, "GRACE_SECONDS", 0.05)
    with process(lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), take(path))) as pid:
        assert take(path, take_over=True).held()
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_a_free_run_is_taken_over_without_a_signal(path):
    assert take(path, take_over=True).held()


def test_a_holder_of_another_user_that_may_not_be_ended_stays(monkeypatch):
    with open_folder() as folder:
        lease = take(folder / "lock")
        (folder / "lock").chmod(0o666)
        with process(lambda: (become_nobody(), refused(folder / "lock", os.getppid()))):
            assert lease.held()


def refused(path, pid):
    if os.geteuid() == os.stat(path).st_uid:
        return  # not run as root: there is no other user to be
    with pytest.raises(Held, match=f"pid {pid} .*which user 65534 may not end"):
        take(path, take_over=True)


def test_a_lock_file_of_another_user_is_an_error_and_not_a_free_run():
    with open_folder() as folder:
        (folder / "lock").touch()
        (folder / "lock").chmod(0o600 if os.geteuid() == 0 else 0)
        with process(lambda: (become_nobody(), cannot_take(folder / "lock"))):
            pass


def cannot_take(path):
    with pytest.raises(StoreError, match="may not be written by user"):
        take(path)


def test_a_lock_that_cannot_be_given_back_is_the_store_s_error(path):
    with process(lambda: cannot_unlock(path)):
        pass


def cannot_unlock(path):
    with pytest.raises(StoreError, match=r"cannot be locked or unlocked \(Bad file descriptor\)"):
        with locks.exclusive(path, 0):
            close_under_us(path)


def close_under_us(path):
    """Close the lock file's descriptor, as a tool does that makes itself a daemon."""
    for descriptor in range(3, 200):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                os.close(descriptor)


def test_a_holder_that_cannot_be_asked_for_is_not_nobody(path):
    with process(lambda: cannot_ask(path)):
        pass


def cannot_ask(path):
    take(path, byte=17)  # which keeps the file open
    close_under_us(path)
    with pytest.raises(StoreError, match=r"cannot be locked or unlocked \(Bad file descriptor\)"):
        locks.holder(path, 16, newest=lambda: None)


def test_the_lock_file_is_the_owner_s_alone(path):
    take(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_forked_child_holds_nothing_and_may_take_what_is_free(path):
    lease = take(path)
    with process(lambda: child_checks(path, lease)):
        assert lease.held()
    assert lease.held()


def child_checks(path, lease):
    assert not lease.held()
    assert is_held_by(path, os.getppid())
    lease.release()
    assert is_held_by(path, os.getppid())
    assert take(path, byte=17).held()


def test_a_forked_child_does_not_have_a_lease_that_its_parent_lost(path):
    lease = take(path)
    path.read_bytes()  # closing any descriptor drops a process's record locks
    with process(lambda: not_held(lease)):
        pass


def not_held(lease):
    assert not lease.held()


def test_a_child_that_ends_does_not_drop_its_parent_s_lease(path):
    lease = take(path)
    with process(path.read_bytes):
        pass
    with process(lambda: child_finds_it_held(path)):
        assert lease.held()


def test_a_lock_file_that_was_made_anew_is_locked_anew(path):
    with process(lambda: take(path)):
        path.unlink()
        assert take(path).held()
        with process(lambda: child_finds_it_held(path)):
            pass


def child_finds_it_held(path):
    assert is_held_by(path, os.getppid())


def test_a_lock_file_that_is_removed_while_its_lock_is_waited_for_is_locked_anew(path):
    def remove_and_end(*_):
        path.unlink()
        os._exit(0)

    with process(lambda: (take(path), signal.signal(signal.SIGTERM, remove_and_end))):
        lease = take(path, take_over=True)
    with process(lambda: child_finds_it_held(path)):
        assert lease.held()


def test_a_lock_file_made_anew_does_not_free_a_run_of_this_process(path):
    take(path)
    path.unlink()
    assert is_held_by(path, os.getpid())


def test_a_lease_dropped_by_code_that_closed_the_file_is_taken_again(path):
    lease = take(path)
    path.read_bytes()  # closing any descriptor drops a process's record locks
    assert lease.held()
    with process(lambda: child_finds_it_held(path)):
        pass


def test_a_dropped_lease_that_somebody_else_took_is_not_held(path):
    lease = take(path)
    path.read_bytes()
    with process(lambda: take(path)):
        assert not lease.held()


def test_leases_of_two_runs_in_one_file_do_not_meet(path):
    one, two = take(path, byte=16), take(path, byte=17)
    one.release()
    assert (one.held(), two.held()) == (False, True)


def test_a_symbolic_link_leads_to_the_same_lock_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "runs.db")
    assert locks.lock_file_of(tmp_path / "link") == locks.lock_file_of(tmp_path / "runs.db")


# ---- the lock for one write


def test_a_writer_waits_for_another_thread(path):
    order, inside = [], threading.Event()

    def other():
        inside.wait()
        with locks.exclusive(path, 0):
            order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    with locks.exclusive(path, 0):
        inside.set()
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_a_writer_does_not_wait_for_ever_for_a_stopped_process(path):
    with process(lambda: write_without_end(path)) as pid:
        with pytest.raises(StoreError, match=f"is locked by pid {pid}, which has not finished its write"):
            with locks.exclusive(path, 0, wait_seconds=0):
                raise AssertionError("two writers")


kept = []


def write_without_end(path):
    kept.append(locks.exclusive(path, 0))
    kept[-1].__enter__()


def test_a_writer_whose_lock_file_is_removed_meanwhile_locks_the_new_one(path):
    waiting, refused = threading.Event(), []

    def other():
        waiting.set()
        with locks.exclusive(path, 0):
            with process(lambda: no_second_writer(path)):
                refused.append("second writer")

    thread = threading.Thread(target=other)
    with locks.exclusive(path, 0):
        thread.start()
        waiting.wait()
        path.unlink()
    thread.join()
    assert refused == ["second writer"]


def no_second_writer(path):
    with pytest.raises(StoreError, match="is locked by pid"):
        with locks.exclusive(path, 0, wait_seconds=0):
            raise AssertionError("two writers")


def test_a_killed_writer_is_not_waited_for(path):
    with process(lambda: write_without_end(path)) as pid:
        os.kill(pid, signal.SIGKILL)
        with locks.exclusive(path, 0):
            pass


def test_a_writer_that_raises_lets_the_next_one_in(path):
    with pytest.raises(ZeroDivisionError), locks.exclusive(path, 0):
        raise ZeroDivisionError
    with locks.exclusive(path, 0, wait_seconds=0):
        pass


def test_twenty_processes_write_one_after_another(path):
    counter = path.with_name("counter")
    counter.write_text("0")
    at_once(20, lambda: count(path, counter))
    assert counter.read_text() == "20"


def count(path, counter):
    with locks.exclusive(path, 0):
        counter.write_text(str(int(counter.read_text()) + 1))
    return "done"


def test_a_process_with_many_stores_keeps_no_lock_file_open(tmp_path):
    for number in range(50):
        with closing(CheckpointStore(tmp_path / f"{number}.json")) as store:
            lease = store.lease("run")
            assert lease.held()
            lease.release()
            assert store.holder("run") is None
    names = [os.path.realpath(f"/dev/fd/{fd}") for fd in os.listdir("/dev/fd")]
    assert [name for name in names if name.startswith(f"{tmp_path}/")] == []


def test_a_store_knows_the_leases_that_were_not_given_back(path):
    among = set()
    first, second, third = (take(path, byte=byte, among=among) for byte in (16, 17, 18))
    assert among == {first, second, third}
    first.release()
    assert among == {second, third}
    third.kept = True
    locks.release_all(among)
    assert among == {third}
    assert take(path, byte=17).held()
