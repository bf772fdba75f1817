"""The journal of a federation: what was noted is there after any crash, and what is said of each device adds up."""

import json

import pytest

from hush.store import manifest
from hush.store.journal import Journal, events, roll, told_in


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def written(path, *lines):
    journal = Journal(path)
    for event, facts in lines:
        journal.note(event, **facts)
    journal.close()


def test_lines_come_back_and_a_torn_one_is_left_out(path):
    written(path, ("came", {"client": 1, "name": "ward", "version": "1"}))
    with path.open("ab") as file:
        file.write(b'{"event": "told", "clie')  # the power failed
    written(path, ("told", {"round": 0, "phase": 0, "clients": [1, 2]}))
    assert [found["event"] for found in events(path)] == ["came", "told"]


def test_a_note_is_on_its_way_to_the_disk_when_it_returns(path):
    journal = Journal(path)
    journal.note("told", round=3, phase=0, clients=[4])
    assert json.loads(path.read_bytes())["clients"] == [4]  # though nothing was closed
    journal.close()


def test_who_was_told_of_a_phase(path):
    written(
        path,
        *(
            ("told", {"round": number, "phase": phase, "clients": [number, phase + 5]})
            for number in (0, 1)
            for phase in (0, 1)
        ),
        ("told", {"round": 1, "phase": 0, "clients": [9]}),
    )
    assert told_in(path, 1, 0) == {1, 5, 9}
    assert told_in(path, 2, 0) == set()


def test_what_became_of_each_device(path):
    written(
        path,
        ("came", {"client": 1, "name": "ward", "version": "1"}),
        ("told", {"round": 0, "phase": 0, "clients": [1, 2]}),
        ("heard", {"round": 0, "phase": 0, "client": 1, "bits": 80, "bytes": 38}),
        ("declined", {"round": 0, "phase": 0, "client": 2, "reason": "spent"}),
        ("refused", {"client": 1, "reason": "too late"}),
    )
    found = roll(path)
    assert (found[1].name, found[1].told, found[1].answered, found[1].bits, found[1].word) == (
        "ward",
        1,
        1,
        80,
        "too late",
    )
    assert (found[2].told, found[2].answered, found[2].declined, found[2].word) == (1, 0, 1, "spent")


def test_damage_is_found(path):
    manifest.begin(path.parent)
    written(path, ("came", {"client": 1}), ("came", {"client": 2}))
    assert manifest.matches(path.parent, path.name) is True
    path.write_bytes(path.read_bytes().replace(b"1", b"3"))
    assert manifest.matches(path.parent, path.name) is False
