"""What `--store` and MIDSTRIDE_STORE mean."""

import os

import pytest

from midstride.errors import DeclarationError
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore, open_store


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite:a/runs.db", SqliteStore),
        ("sqlite:/a/b:c.db", SqliteStore),
        ("checkpoint:checkpoint.json", CheckpointStore),
        ("memory:", MemoryStore),
    ],
)
def test_a_url_opens_its_store_which_names_it(url, kind):
    store = open_store(url)
    assert (type(store), store.url) == (kind, url)


def test_the_environment_names_the_store_when_nobody_else_does(monkeypatch):
    monkeypatch.setenv("MIDSTRIDE_STORE", "checkpoint:here.json")
    assert (open_store().url, open_store("memory:").url) == ("checkpoint:here.json", "memory:")


def test_the_default_is_a_file_in_this_folder_and_opening_makes_nothing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIDSTRIDE_STORE", raising=False)
    assert (open_store().url, os.listdir(tmp_path)) == ("sqlite:.midstride/runs.db", [])


@pytest.mark.parametrize("url", ["runs.db", "sqlite:", "checkpoint:", "postgres://host/db", "memory:x", "sqlite"])
def test_another_url_is_told_which_forms_there_are(url):
    with pytest.raises(DeclarationError, match="sqlite:PATH"):
        open_store(url)


def test_slashes_before_the_path_are_refused():
    with pytest.raises(DeclarationError, match="write sqlite:PATH"):
        open_store("sqlite:///runs.db")
