"""Disks that are full, files that were cut, padded or opened in an editor, and names that cannot be given."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cases.stage import Killed, Stage, forked
from midstride import Runs, tool
from midstride.core.journal import Said, broken_link, head_of
from midstride.errors import Damaged, StoreError
from midstride.stores import disk, open_store
from midstride.testing import Answer, calls
from midstride.testing.conformance import add, begin
from stores.places import fill, on_a_small_disk

SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
CHECKPOINT = pytest.mark.parametrize("url", ["checkpoint"], indirect=True)
WORDS = "caf\u00e9 \U0001f642 \u2028"


def path_of(url):
    return Path(url.partition(":")[2])


def with_entries(url, count):
    """Make a journal of *count* entries and let it go, all of it in the file itself; return its lines."""
    with closing(open_store(url)) as store:
        head = begin(store)
        for number in range(count - 3):
            head = add(store, head, Said(f"{number} {WORDS}"), token=None)
        found = [entry.text for entry in store.read("run")]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url))) as connection:
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    return found


# ---- in the middle of a journal


@pytest.mark.parametrize("size", [1, 40, 4096])
def test_case_216_nul_padding_mid_file(size, url):
    """A block of zeros stands in the middle: refused, located and left as it is; not cut off where it begins."""
    path = path_of(url)
    with_entries(url, 14)
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("update midstride_entries set body = zeroblob(?) || body where seq = 11", (size,))
    else:
        data = path.read_bytes()
        at = data.index(b'{\\"seq\\":11,')
        path.write_bytes(data[:at] + bytes(size) + data[at:])
    before = path.read_bytes()
    with closing(open_store(url)) as store:
        for _ in range(2):
            with pytest.raises(Damaged, match=r"entry 11 |is cut or damaged"):
                store.read("run")
            with pytest.raises(Damaged):
                Runs(store).say("run", "go on")
    assert path.read_bytes() == before
    if url.startswith("sqlite"):  # what is whole is still there
        with closing(sqlite3.connect(path)) as connection:
            seqs = [seq for (seq,) in connection.execute("select seq from midstride_entries order by seq")]
            assert seqs == list(range(1, 15))


# ---- a torn tail


@SQLITE
def test_case_218_last_line_cut(url):
    """The last record was half written: what stands before it is the state, and new records come behind that."""
    path = path_of(url)
    with closing(open_store(url)) as store:
        begin(store)
        whole = [entry.text for entry in store.read("run")]
        first = path.with_name("runs.db-wal").stat().st_size
        add(store, head_of(store.read("run")), Said(WORDS * 300), token=None)
        grown = path.with_name("runs.db-wal").read_bytes()
        image = path.read_bytes()
    for cut in (first, first + 1, first + 24, first + 4000, len(grown) - 8200, len(grown) - 1):
        torn = path.with_name(f"torn-{cut}.db")
        torn.write_bytes(image)
        torn.with_name(f"{torn.name}-wal").write_bytes(grown[:cut])
        with closing(open_store(f"sqlite:{torn}")) as store:
            assert [entry.text for entry in store.read("run")] == whole
            add(store, head_of(store.read("run")), Said("behind it"), token=None)
        with closing(open_store(f"sqlite:{torn}")) as store:
            found = store.read("run")
            assert ([entry.text for entry in found[:-1]], found[-1].body.content) == (whole, "behind it")
            assert broken_link(found) is None


@CHECKPOINT
def test_case_218_last_line_cut_in_a_file_of_one_generation(url):
    """The file has no tail that could be dropped: cut anywhere it is refused, and names the generation before."""
    path = path_of(url)
    with_entries(url, 6)
    data = path.read_bytes()
    for cut in (len(data) - 2, len(data) - 40, len(data) // 2, 10):
        path.write_bytes(data[:cut])
        with closing(open_store(url)) as store, pytest.raises(Damaged, match=r"checkpoint\.json\.prev"):
            store.read("run")
        assert path.read_bytes() == data[:cut]


@SQLITE
def test_case_226_utf8_cut_at_tail(url):
    """The torn tail ends in a character: nothing is swallowed, and what is appended later is there later."""
    path = path_of(url)
    before = with_entries(url, 4)
    assert all(line.isascii() and json.loads(line) for line in before)  # no character of an entry has several bytes
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update midstride_entries set body = cast(? as text) where seq = 4", (b'{"t":"\xc3',))
    with closing(open_store(url)) as store:
        with pytest.raises(Damaged, match="entry 4"):
            store.read("run")
        with pytest.raises(Damaged, match="entry 4"):
            Runs(store).say("run", "lost?")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("delete from midstride_entries where seq = 4")
    for number in range(2):
        with closing(open_store(url)) as store:
            add(store, head_of(store.read("run")), Said(f"{number} {WORDS}"), token=None)
    with closing(open_store(url)) as store:
        assert [entry.body.content for entry in store.read("run")[3:]] == [f"0 {WORDS}", f"1 {WORDS}"]


@CHECKPOINT
def test_case_226_utf8_cut_at_tail_in_a_file_of_one_generation(url):
    """Half a character at the end of the file is damage, and is said to be; an append does not go on over it."""
    path = path_of(url)
    with_entries(url, 4)
    data = path.read_bytes()
    for torn in (data[:-3] + b"\xc3", b"\xef\xbb", data + b"\xf0\x9f"):
        path.write_bytes(torn)
        with closing(open_store(url)) as store:
            with pytest.raises(Damaged, match="is cut or damaged"):
                Runs(store).say("run", "lost?")
        assert path.read_bytes() == torn


@CHECKPOINT
@pytest.mark.parametrize("end", ["", "\r\n", "\n\n"])
def test_case_224_crlf_bom_and_editor(end, url):
    """An editor left its mark and line ends: every record is read, and the next save is written as it should be."""
    path = path_of(url)
    lines = with_entries(url, 12)
    text = path.read_text(encoding="ascii").rstrip("\n").replace("\n", "\r\n") + end
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    with closing(open_store(url)) as store:
        assert [entry.text for entry in store.read("run")] == lines
        add(store, head_of(store.read("run")), Said("on"), token=None)
    data = path.read_bytes()
    assert (data.isascii(), b"\r" in data, data.endswith(b"}\n")) == (True, False, True)


# ---- a full disk


def send_to(done, *, then=None):
    @tool
    def send_mail(to: str) -> str:
        done.append(to)
        if then is not None:
            then()
        return "queued"

    return send_mail


@pytest.mark.parametrize("form", ["sqlite", "checkpoint"])
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_case_221_disk_full_before_effect(way, form, tmp_path):
    """The intent cannot be written: the mail is not sent, and the same program goes on once there is room."""
    on_a_small_disk(tmp_path, lambda: full_before(tmp_path, form, way), size="1m")


def full_before(folder, form, way):
    url = f"{form}:{folder / ('runs.db' if form == 'sqlite' else 'checkpoint.json')}"
    sent = []

    def fill_behind_the_answer(event):
        if getattr(getattr(event, "body", None), "kind", "") == "responded":
            fill(folder / "ballast", leave=0)

    with closing(open_store(url)) as store, closing(Stage(way, store)) as stage:
        stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
        with pytest.raises(StoreError, match="the disk is full: nothing was written"):
            stage.run(send_to(sent), watch=fill_behind_the_answer)
        assert (sent, stage.kinds()[-1]) == ([], "responded")
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
        (folder / "ballast").unlink()
        assert (stage.run(send_to(sent)).status, sent, stage.results) == ("done", ["ann"], [("queued", False)])


@pytest.mark.parametrize("form", ["sqlite", "checkpoint"])
@pytest.mark.parametrize("gone", [True, False], ids=["another process", "the same process"])
def test_case_222_disk_full_after_effect(form, gone, tmp_path):
    """The mail is out and its outcome cannot be written: no second mail; who still knows the outcome records it."""
    on_a_small_disk(tmp_path, lambda: full_after(tmp_path, form, gone), size="1m")


def full_after(folder, form, gone):
    url = f"{form}:{folder / ('runs.db' if form == 'sqlite' else 'checkpoint.json')}"
    sent = []
    full = send_to(sent, then=lambda: (fill(folder / "ballast", leave=0), (folder / "sent").touch()))

    def die():
        with closing(open_store(url)) as store, closing(Stage("blocking", store)) as stage:
            stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
            with pytest.raises(StoreError, match="the disk is full: nothing was written"):
                stage.run(full)
            assert stage.kinds()[-1] == "intended"

    assert forked(die) == 0 if gone else die() is None
    (folder / "ballast").unlink()
    with closing(open_store(url)) as store, closing(Stage("blocking", store)) as stage:
        stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
        assert stage.run(send_to(sent)).status == "done"
        ((content, _),) = stage.results
        assert content.split(":")[0] == ("Outcome unknown" if gone else "queued")
        assert sent == ([] if gone else ["ann"])


# ---- a name that cannot be given


@CHECKPOINT
@pytest.mark.parametrize("times", [2, 99], ids=["for a moment", "for good"])
def test_case_223_rename_refused(times, stage, folder, monkeypatch):
    """Somebody has the file open and no name can be given: tried again, and given up before the next effect."""
    sent, refused, real = [], [], os.replace

    def replace(source, target):
        if sent and len(refused) < times:
            refused.append(target)
            assert (folder / "checkpoint.json").exists()  # what stands there is not removed first
            raise PermissionError(1, "Operation not permitted")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(disk, "RENAME_PAUSES", (0.001,) * 5)
    stage.says(calls(("send_mail", {"to": "ann"}), ("send_mail", {"to": "bob"})), Answer("Done."))
    if times == 99:
        with pytest.raises(StoreError, match="may not be written"):
            stage.run(send_to(sent))
        assert (sent, stage.kinds()[-1]) == (["ann"], "intended")
        times = len(refused)
        monkeypatch.setattr(os, "replace", real)
    assert stage.run(send_to(sent)).status == "done"
    assert (sent, stage.results) == (["ann", "bob"], [("queued", False)] * 2)
    assert len(refused) == times


@SQLITE
def test_a_database_has_no_name_to_be_given_behind_its_first_save(stage, monkeypatch):
    """The default store renames nothing, so nobody can refuse it."""
    stage.says(calls(("send_mail", {"to": "ann"})), Answer("Done."))
    stage.killed(send_to([], then=lambda: raising()))
    monkeypatch.setattr(os, "replace", lambda *_: raising())
    assert stage.run(send_to([])).status == "done"


def raising():
    raise Killed
