"""The commands over an encrypted store: with MIDSTRIDE_KEY as ever, without it one sentence."""

import hashlib
import json

import pytest

from cli.using import STORE, User
from midstride.stores import AesGcm, SqliteStore

KEY, NEW = (hashlib.sha256(word).hexdigest() for word in (b"key", b"new"))
ID = hashlib.sha256(b"midstride key " + bytes.fromhex(KEY)).hexdigest()[:8]


@pytest.fixture
def keyless(user):
    """The same person without the variable."""
    return user


@pytest.fixture
def owner(user):
    return User(user.folder, MIDSTRIDE_KEY=KEY)


def raw(user):
    return b"".join(p.read_bytes() for p in (user.folder / ".midstride").rglob("*") if p.is_file())


def test_a_run_that_was_killed_is_carried_on_and_nothing_of_it_is_readable(owner):
    (owner.folder / "post.kill").touch()
    assert owner.do("run", "agents.py:letter", "--task", "marker-task", "--id", "r").code == -9
    assert b"marker-task" not in raw(owner)
    (owner.folder / "post.kill").unlink()
    assert owner.do_forked("resume", "r").code == 0
    assert owner.sent() == ["ann"]
    shown = owner.do_forked("show", "r")
    assert "marker-task" in shown.out
    assert [
        word for word in (b"marker-task", b"posted to", b"Outcome unknown", KEY.encode()) if word in raw(owner)
    ] == []


def test_without_the_key_every_command_says_in_one_line_what_is_missing(owner, keyless):
    owner.do_forked("run", "agents.py:hello", "--task", "marker-task", "--id", "r")
    before = keyless.files()
    for words in (["show", "r"], ["log", "r"], ["plan", "r"], ["resume", "r"], ["export", "r"], ["say", "r", "hi"]):
        ended = keyless.do_forked(*words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (9, "", 1), words
        assert f"it is encrypted with key {ID}, and no key is given: set MIDSTRIDE_KEY" in ended.err
    assert keyless.do_forked("run", "agents.py:hello", "--task", "t", "--id", "new").code == 9
    listed = keyless.do_forked("runs")
    assert (listed.code, "unread" in listed.out, f"key {ID}" in listed.out) == (9, True, True)
    assert keyless.files() == before


def test_a_wrong_key_is_refused_by_its_id_and_a_garbled_one_is_not_printed(owner, keyless):
    owner.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
    other = User(owner.folder, MIDSTRIDE_KEY=NEW).do_forked("show", "r")
    assert (other.code, f"encrypted with key {ID}, and MIDSTRIDE_KEY has " in other.err) == (9, True)
    garbled = User(owner.folder, MIDSTRIDE_KEY="hunter2,hunter3").do_forked("show", "r")
    assert (garbled.code, garbled.err.count("\n"), "hunter" in garbled.err) == (2, 1, False)
    assert "key 1 of 2 in MIDSTRIDE_KEY is no key" in garbled.err
    empty = User(owner.folder, MIDSTRIDE_KEY="").do_forked("show", "r")
    assert (empty.code, "in MIDSTRIDE_KEY is no key" in empty.err) == (2, True)
    rotated = User(owner.folder, MIDSTRIDE_KEY=f"{NEW},{KEY}")
    assert rotated.do_forked("say", "r", "and again").code == 0
    assert rotated.do_forked("show", "r").code == 0


def test_verify_needs_no_key_and_says_that_it_looked_at_the_outside(owner, keyless):
    owner.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r")
    ended = keyless.do_forked("verify", "r")
    assert (ended.code, ended.out.splitlines()[1].split()) == (0, ["r", "4", "none"])
    assert ended.err == (
        "  encrypted entries were checked without their key: whole as they are stored, and not looked into\n"
    )
    assert json.loads(keyless.do_forked("verify", "--all", "--json").out)["runs"] == [
        {"run": "r", "entries": 4, "damage": None, "sealed": True}
    ]
    with_it = owner.do_forked("verify", "--all")
    assert (with_it.code, with_it.err) == (0, "")
    assert keyless.do_forked("verify", "tvo").code == 2


def test_a_checkpoint_is_refused_and_taken_into_an_encrypted_store(owner, keyless):
    keyless.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r", "--store", "checkpoint:c.json")
    for words in (["show", "r"], ["run", "agents.py:hello", "--task", "t", "--id", "r"]):
        ended = owner.do_forked(*words, "--store", "checkpoint:c.json")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "checkpoint:c.json is plain text, and MIDSTRIDE_KEY asks for an encrypted store" in ended.err
    assert owner.do_forked("plan", "c.json").code == 0
    assert owner.do_forked("import", "c.json").code == 0
    assert owner.do_forked("show", "r").out.startswith("r  done")
    assert keyless.do_forked("show", "r").code == 9


def test_a_plain_run_is_moved_into_an_encrypted_store_and_back(owner, keyless):
    keyless.do_forked("run", "agents.py:hello", "--task", "marker-task", "--id", "r", "--store", "sqlite:plain.db")
    assert keyless.do_forked("export", "r", "--as", "journal", "-o", "r.jsonl", "--store", "sqlite:plain.db").code == 0
    assert owner.do_forked("import", "r.jsonl").code == 0
    assert b"marker-task" not in raw(owner)
    assert owner.do_forked("export", "r", "--as", "journal").out == (owner.folder / "r.jsonl").read_text()


# ---- whole results

LONG = "".join(f"line {n}\n" for n in range(20_000))


@pytest.mark.parametrize("key", ["", KEY])
def test_the_whole_of_a_cut_result_is_printed(user, key):
    reader = User(user.folder, **({"MIDSTRIDE_KEY": key} if key else {}))
    (user.folder / "hostile").write_text(LONG)
    reader.do_forked("run", "agents.py:capped", "--task", "t", "--id", "r")
    shown = reader.do_forked("show", "r", "--call", "toolu_1_0")
    assert "bytes, is kept in" in shown.out
    assert len(shown.out) < len(LONG)
    whole = reader.do_forked("show", "r", "--call", "toolu_1_0", "--whole")
    assert (whole.code, whole.out) == (0, LONG)
    if key:
        assert b"line 7777" not in raw(user)
        assert user.do_forked("show", "r", "--call", "toolu_1_0", "--whole").code == 9


def test_a_result_that_was_not_cut_is_whole_as_it_is(user):
    user.do_forked("run", "agents.py:capped", "--task", "t", "--id", "r")
    assert user.do_forked("show", "r", "--call", "toolu_1_0", "--whole").out == "seen monday"
    for words in (["--whole"], ["--whole", "--turn", "1"], ["--call", "toolu_1_0", "--whole", "--json"]):
        ended = user.do_forked("show", "r", *words)
        assert (ended.code, "--whole prints the result of one call" in ended.err) == (2, True)
    assert user.do_forked("show", "r", "--call", "nope", "--whole").code == 2


def test_a_result_that_names_another_file_is_given_none(user):
    (user.folder / "secret").write_text("not the model's")
    (user.folder / "hostile").write_text(f"[The whole, 16 bytes, is kept in {user.folder / 'secret'}]")
    user.do_forked("run", "agents.py:capped", "--task", "t", "--id", "r")
    ended = user.do_forked("show", "r", "--call", "toolu_1_0", "--whole")
    assert (ended.code, "not the model's" in ended.out) == (9, False)
    assert "where the results of this store are kept" in ended.err


def test_a_store_that_the_program_made_has_the_programs_codec(user):
    store = SqliteStore(user.folder / STORE, codec=AesGcm(KEY))
    store.lease("r").release()
    store.close()
    assert user.do_forked("run", "agents.py:hello", "--task", "t", "--id", "r").code == 9
