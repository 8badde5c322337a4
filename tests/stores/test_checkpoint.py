"""The checkpoint store: the suite, and the lesson's own file: its view, its damage, its previous generation."""

import json
import os
import shutil
import threading
from dataclasses import replace

import pytest

from midstride.core.journal import Head, Requested, Responded, Said, Taken, head_of, seal
from midstride.errors import Damaged, Fenced, Moved, Newer, NotAllowed, NotOurs, StoreError
from midstride.stores import CheckpointStore
from midstride.testing.conformance import ANSWER, AT, TERMS, Recorded, add, begin, process, started, store_conformance
from stores.places import as_another_user, at_once, fill, on_a_small_disk, open_folder

CHECKS = store_conformance(lambda folder: CheckpointStore(folder / "checkpoint.json"), several_runs=False)

LESSONS = {
    "version": 1,
    "task": "Email the team",
    "turns": 9,
    "tokensUsed": 24003,
    "messages": [{"role": "user", "content": "Email the team"}],
    "pendingToolUse": {"id": "toolu_01B", "name": "send_email", "input": {"to": "team@example.com"}},
}


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_checkpoint_store_keeps_its_promise(check, tmp_path):
    check(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.json"


@pytest.fixture
def store(path):
    return CheckpointStore(path)


@pytest.fixture
def head(store):
    return begin(store)


def edit(path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


# ---- the view


def test_the_file_shows_the_lesson_s_six_fields(path, store, head):
    add(store, head, Responded(ANSWER, [Recorded(TERMS)]), token=1)
    found = json.loads(path.read_text())
    assert list(found) == ["version", "task", "turns", "tokensUsed", "messages", "pendingToolUse", "midstride"]
    assert [found[name] for name in ("version", "task", "turns", "tokensUsed")] == [1, "tidy up", 1, 8]
    assert found["messages"][1] == {"role": "assistant", "content": ANSWER["content"]}
    assert found["pendingToolUse"] == {"id": "toolu_1", "name": "send", "input": {}}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("turns", 12, "turns is 12, the journal says 1"),
        ("tokensUsed", 5, "tokensUsed is 5, the journal says 0"),
        ("task", "be bad", 'task is "be bad", the journal says "tidy up"'),
        ("pendingToolUse", {"id": "toolu_9"}, 'pendingToolUse is {"id": "toolu_9"}, the journal says null'),
        ("messages", [], r"messages\[0\] is not there, the journal says {"),
        ("note", "mine", 'note is "mine", the journal says not there'),
    ],
)
def test_a_view_that_was_edited_by_hand_is_refused_and_named(path, store, head, field, value, words):
    edit(path, lambda found: found.update({field: value}))
    with pytest.raises(Damaged, match=f"was edited by hand: {words}"):
        store.read("run")


def test_a_field_that_was_taken_out_is_named(path, store, head):
    edit(path, lambda found: found.pop("turns"))
    with pytest.raises(Damaged, match="turns is not there, the journal says 1"):
        store.read("run")


@pytest.mark.parametrize("form", ["{text}", "\ufeff{text}", "crlf", "indented"])
def test_an_editor_s_marks_and_line_ends_are_read_and_written_canonically(path, store, head, form):
    canonical = path.read_text()
    text = {"crlf": canonical.replace("\n", "\r\n"), "indented": json.dumps(json.loads(canonical), indent=8)}
    path.write_bytes(text.get(form, form.format(text=canonical)).encode())
    add(store, head_of(store.read("run")), Said("a word"), token=None)
    assert b"\r" not in path.read_bytes()
    assert [e.body.kind for e in CheckpointStore(path).read("run")] == ["started", "taken", "requested", "said"]


# ---- damage


def test_a_file_cut_at_any_byte_is_refused_and_left_untouched(path, store, head):
    whole = path.read_bytes()
    for length in range(len(whole) - 1):  # the last byte is a line end, which an editor may take
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged, match=r"is cut or damaged|is empty"):
            store.read("run")
        with pytest.raises(Damaged):
            begin(store)
        assert path.read_bytes() == whole[:length]


def test_a_character_flipped_anywhere_in_the_journal_is_refused(path, store, head):
    whole = path.read_bytes()
    for place in range(whole.index(b'"length"'), len(whole) - 10):
        if whole[place : place + 1] in b" \n":
            continue
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((Damaged, NotOurs, Newer)):
            store.read("run")


@pytest.mark.parametrize(("data", "words"), [(b"", r"\(0 bytes\)"), (bytes(4096), r"\(4096 bytes, none but zeros\)")])
def test_an_emptied_or_zeroed_file_is_no_fresh_start(path, store, data, words):
    path.write_bytes(data)
    with pytest.raises(Damaged, match=f"is empty {words}"):
        store.read("run")
    with pytest.raises(Damaged):
        begin(store)


def test_entries_that_were_taken_out_are_missed(path, store, head):
    edit(path, lambda found: found["midstride"]["entries"].pop())
    with pytest.raises(Damaged, match="holds 2 entries where its length says 3"):
        store.read("run")


def test_an_older_tail_with_its_length_made_to_fit_is_refused(path, store, head):
    def shorten(found):
        found["midstride"]["entries"].pop()
        found["midstride"]["length"] = 2

    edit(path, shorten)
    with pytest.raises(Damaged, match="the checksum differs"):
        store.read("run")


def test_a_damaged_file_names_the_previous_generation_and_does_not_take_it(path, store, head):
    add(store, head, Said("a word"), token=None)
    path.write_bytes(b"{")
    with pytest.raises(Damaged, match=r"previous generation is at .*checkpoint\.json\.prev: only an explicit import"):
        store.read("run")


def test_a_missing_file_beside_its_previous_generation_is_no_fresh_start(path, store, head):
    add(store, head, Said("a word"), token=None)
    path.unlink()
    for use in (lambda: store.read("run"), lambda: begin(store), store.runs, lambda: store.foreign("run")):
        with pytest.raises(Damaged, match=r"is missing; .* only an explicit import"):
            use()


def test_damage_does_not_keep_the_lease_from_being_taken(path, store):
    path.write_bytes(b"")
    assert store.lease("run").held()


# ---- generations


def test_the_generation_before_is_kept(path, store, head):
    add(store, head, Said("a word"), token=None)
    previous = store.previous()
    assert (previous.run_id, len(previous.entries), len(store.read("run"))) == ("run", 3, 4)


def test_without_a_generation_before_there_is_none(store, head):
    assert store.previous() is None


def test_an_explicit_import_keeps_what_stood_there(path, store, head):
    add(store, head, Said("a word"), token=None)
    path.write_bytes(b"{")
    bodies = [entry.body for entry in store.previous().entries]
    store.import_over("run", seal([replace(bodies[0], imported=True), Taken(1, "host", 1)], Head(), AT), token=1)
    assert [e.body.kind for e in store.read("run")] == ["started", "taken"]
    assert path.with_name("checkpoint.json.set-aside").read_bytes() == b"{"
    add(store, head_of(store.read("run")), Requested(), token=1)


def test_leftovers_of_killed_writers_are_cleared(path, store, head):
    leftover = path.with_name(".checkpoint.json.1.ab.tmp")
    leftover.write_text("half")
    add(store, head, Said("a word"), token=None)
    assert not leftover.exists()


# ---- whose file it is


def test_another_run_s_file_is_refused_with_both_ids(path, store, head):
    for use in (store.read, store.lease, store.foreign, lambda run_id: begin(store, run_id)):
        with pytest.raises(NotOurs, match="holds run 'run', not 'other'"):
            use("other")


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"name": "package", "version": "1.0.0"}', "null"])
def test_json_of_somebody_else_s_is_left_untouched(path, store, text):
    path.write_text(text)
    with pytest.raises(NotOurs, match="is no checkpoint"):
        begin(store)
    assert path.read_text() == text


def test_a_lesson_s_checkpoint_is_given_away_and_has_no_entries(path, store):
    path.write_text(json.dumps(LESSONS))
    assert (store.read("run"), store.foreign("run"), store.runs()) == ([], LESSONS, [])


def test_a_lesson_s_checkpoint_is_only_replaced_by_a_journal_that_imports_it(path, store):
    path.write_text(json.dumps(LESSONS))
    with pytest.raises(NotOurs, match="holds a checkpoint of another program: import it"):
        begin(store)
    add(store, Head(), replace(started(), imported=True), Taken(1, "host", 1), token=1)
    assert (store.foreign("run"), store.previous().foreign) == (None, LESSONS)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("turns", "nine", 'turns is "nine", a count is wanted'),
        ("turns", True, "turns is true, a count is wanted"),
        ("tokensUsed", -1, "tokensUsed is -1, a count is wanted"),
        ("task", None, "task is null, a text is wanted"),
        ("messages", [{"role": "user"}], "messages is .*, a list of messages with role and content is wanted"),
        ("pendingToolUse", {"id": "x"}, "pendingToolUse is .*, null or an object of id, name and input is wanted"),
        ("version", "1", 'version is "1", the number 1 is wanted'),
    ],
)
def test_a_lesson_s_checkpoint_with_a_wrong_field_is_refused(path, store, field, value, words):
    path.write_text(json.dumps({**LESSONS, field: value}))
    with pytest.raises(Damaged, match=words):
        store.foreign("run")


@pytest.mark.parametrize("field", ["version", "task", "turns", "tokensUsed", "messages", "pendingToolUse"])
def test_a_lesson_s_checkpoint_without_a_field_is_refused(path, store, field):
    path.write_text(json.dumps({name: value for name, value in LESSONS.items() if name != field}))
    with pytest.raises(Damaged, match=f"has no field {field}"):
        store.foreign("run")


def test_another_version_is_refused_with_both_numbers(path, store):
    path.write_text(json.dumps({**LESSONS, "version": 2}))
    with pytest.raises(Newer, match="checkpoint is v2, this code reads v1"):
        store.read("run")


def test_a_newer_format_of_ours_is_refused_with_both_numbers(path, store, head):
    edit(path, lambda found: found["midstride"].update(format=2))
    with pytest.raises(Newer, match="is format 2, this code reads format 1"):
        store.read("run")


# ---- writing


def test_an_entry_that_the_run_has_no_room_for_is_not_written(path, store, head):
    before = path.read_bytes()
    with pytest.raises(NotAllowed):
        add(store, head, started(), token=1)
    assert path.read_bytes() == before


def test_looking_makes_nothing(tmp_path):
    store = CheckpointStore(tmp_path / "new" / "checkpoint.json")
    assert (store.read("run"), store.runs(), store.foreign("run")) == ([], [], None)
    assert os.listdir(tmp_path) == []


def test_an_unreadable_file_is_an_error_and_no_fresh_start():
    with open_folder() as folder:
        begin(CheckpointStore(folder / "checkpoint.json"))
        assert (folder / "checkpoint.json").stat().st_mode & 0o777 == 0o600
        if os.geteuid() != 0:
            (folder / "checkpoint.json").chmod(0)
        as_another_user(lambda: cannot_read(folder / "checkpoint.json"))


def cannot_read(path):
    with pytest.raises(StoreError, match="may not be read by user"):
        CheckpointStore(path).read("run")


@pytest.mark.parametrize("room", [0, 4, 8, 12, 16, 24, 40, 64])
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path, room):
    on_a_small_disk(tmp_path, lambda: append_until_full(tmp_path, room * 1024), size="256k")


def append_until_full(folder, room):
    fill(folder / "ballast", leave=room)
    store, done, failure = CheckpointStore(folder / "checkpoint.json"), 0, None
    try:
        store.lease("run")
        head, done = begin(store), 3
        while True:
            head, done = add(store, head, Said("x" * 999), token=None), done + 1
    except StoreError as error:
        failure = error
    assert "the disk is full: nothing was written to" in str(failure)
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    (folder / "ballast").unlink()
    assert len(CheckpointStore(folder / "checkpoint.json").read("run")) == done
    add(store, head, Requested(), token=1) if done else begin(store)


def test_an_outsider_in_another_process_is_seen(store, head, path):
    with process(lambda: add(CheckpointStore(path), head, Said("from outside"), token=None)):
        pass
    with pytest.raises(Moved):
        add(store, head, Requested(), token=1)
    assert store.read("run", 3)[0].body.content == "from outside"


def test_twenty_outsiders_lose_nothing(path, store, head):
    words = at_once(20, lambda: say(path))
    assert (words, len(CheckpointStore(path).read("run"))) == (["said"] * 20, 23)


def say(path):
    store = CheckpointStore(path)
    while True:
        try:
            add(store, head_of(store.read("run")), Said("a word"), token=None)
            return "said"
        except Moved:
            pass


def test_every_generation_that_a_reader_sees_is_whole(path, store, head):
    ended, seen = threading.Event(), []

    def read_on():
        while not ended.is_set():
            seen.append(len(CheckpointStore(path).read("run")))

    reader = threading.Thread(target=read_on)
    reader.start()
    for _ in range(50):
        head = add(store, head, Said("a word"), token=None)
    ended.set()
    reader.join()
    assert (seen == sorted(seen), set(seen) <= set(range(3, 54))) == (True, True)


def test_a_copied_file_is_a_store_too(path, store, head, tmp_path):
    shutil.copy(path, tmp_path / "copy.json")
    other = CheckpointStore(tmp_path / "copy.json")
    with pytest.raises(Fenced):
        add(other, head, Requested(), token=2)
    assert len(other.read("run")) == 3
