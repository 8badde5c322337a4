"""What a killed process noted: whole notes count, a torn one does not, and it hides none behind it."""

from __future__ import annotations

from crash.outside import note, noted


def test_a_note_that_a_kill_has_torn_is_none_and_hides_none(tmp_path):
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    note(whole, "run-07 14 1a8ac6ba30", "run-02 13")
    data = whole.read_bytes()
    ends = [data.index(b"\n") + 1, len(data)]
    for length in range(len(data) + 1):
        torn.write_bytes(data[:length])
        note(torn, "next")
        before = [one for one, end in zip(noted(whole), ends, strict=True) if end <= length]
        assert noted(torn) == [*before, "next"], length


def test_no_file_is_no_note(tmp_path):
    assert noted(tmp_path / "none") == []
