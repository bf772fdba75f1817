"""Rounds by post, with a post that loses, repeats and forges; the Flower behind it has a test of its own."""

import contextlib
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import hush
from hush.core.flat import initial
from hush.core.keys import at, root
from hush.network.agreement import agree
from hush.network.flower import exchange
from hush.network.flower.exchange import ByPost, Reply, Seen
from hush.network.flower.roster import Roster
from hush.network.messages import END, kind_of, read_end, read_welcome, write_hello
from hush.network.serving import rehearsing, serve
from hush.settings import NetworkSettings, RunSettings
from hush.store.journal import events

pytestmark = pytest.mark.slow

CLIENTS, ROUNDS, NODE = 3, 3, 1 << 40  # numbers of nodes have nothing to do with those of clients
PROBLEM = hush.tasks.logistic_regression(CLIENTS, 20, dimension=4)
ALGORITHM = hush.fedpaq(clients=CLIENTS, steps=2, lr=0.2, batch=4, levels=4)
RUN = RunSettings(rounds=ROUNDS)
AGREEMENT = agree(ALGORITHM, PROBLEM, RUN, rehearsal=True)
START = initial(PROBLEM, at(root(0), "repetition", 0, "init"))
KEYS = [ec.generate_private_key(ec.SECP384R1()).public_key() for _ in range(CLIENTS + 1)]  # the last is a stranger's
PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
SSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
LINES = [key.public_bytes(*SSH).decode() for key in KEYS]
ROSTER = Roster(dict(enumerate(LINES[:CLIENTS])))


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Nobody waits, and who is there is looked up every time."""
    for name, seconds in {"POLL": 1e-4, "LOOK": 0.0, "AGAIN": 0.0, "FAREWELL": 5.0}.items():
        monkeypatch.setattr(exchange, f"{name}_SECONDS", seconds)


class FakePost:
    """Devices behind numbers of nodes; `fate` says what becomes of the answer to a client's n-th message."""

    def __init__(self, fate=lambda client, count, data: data, pinned=b""):
        self.devices = {c: rehearsing(AGREEMENT, ALGORITHM, PROBLEM, RUN, c, START) for c in range(CLIENTS)}
        self.came, self.fate, self.pinned = Counter(), fate, pinned
        self.pushed, self.replies, self.ends = Counter(), {}, {}

    def nodes(self):
        return [Seen(NODE + c, key.public_bytes(*PEM), str(self.came[c])) for c, key in enumerate(KEYS)]

    def push(self, node, welcome, data, seconds):
        client, number = node - NODE, str(sum(self.pushed.values()))
        self.pushed[client] += 1
        assert seconds > 0
        if not data:
            self.replies[number] = Reply(number, write_hello(self.pinned if client == 1 else b""))
        else:
            assert read_welcome(welcome).agreement == AGREEMENT.text
            self.replies[number] = self.answered(number, client, data)
        return number

    def answered(self, number, client, data):
        if kind_of(data) == END:
            self.ends[client] = read_end(data)
            return Reply(number, b"")
        became = self.fate(client, self.pushed[client], self.devices[client].hear(data))
        if became is None:  # the node was killed with the answer, and comes back
            self.came[client] += 1
            return None
        return became._replace(asked=number) if isinstance(became, Reply) else Reply(number, became)

    def pull(self, asked):
        found = [self.replies.pop(number) for number in asked if number in self.replies]
        return [reply for reply in found if reply is not None]


def served(post, folder=None, **rules):
    said = []

    @contextlib.contextmanager
    def connect(desk):
        made = ByPost(post, desk, ROSTER, said.append)
        yield made
        made.close()

    settings = NetworkSettings(**{"deadline": 20.0, "minimum": 0.5} | rules)
    where = {"folder": folder, "rehearsal": True, "progress": False}
    return serve(ALGORITHM, PROBLEM, RUN, connect, rules=settings, **where), said


@pytest.fixture(scope="module")
def simulated():
    return hush.run(ALGORITHM, PROBLEM, ROUNDS, progress=False, evaluate_clients=False)


def never(client, count, data):
    return data


def killed_once(client, count, data):
    return None if (client, count) in {(0, 2), (2, 3)} else data


def failed_once(client, count, data):
    return Reply("", b"", "out of memory") if (client, count) in {(0, 2), (1, 4)} else data


@pytest.mark.parametrize("fate", [killed_once, never, failed_once])
def test_what_is_lost_is_asked_again_and_counts_once(fate, simulated, tmp_path):
    post = FakePost(fate)
    result, said = served(post, tmp_path, begin_with=CLIENTS)
    np.testing.assert_allclose(result.vector, simulated.vector, atol=1e-6)
    for name in ("ledger/client_uplink_bits", "ledger/client_downlink_bits"):
        np.testing.assert_array_equal(result.state[name], simulated.state[name])
    heard = [each["client"] for each in events(tmp_path / "journal.jsonl") if each["event"] == "heard"]
    assert Counter(heard) == dict.fromkeys(range(CLIENTS), ROUNDS)
    assert {client: end.used for client, end in post.ends.items()} == dict.fromkeys(range(CLIENTS), (ROUNDS - 1,))
    assert post.pushed[CLIENTS] == 0
    assert sum("not in the roster" in line for line in said) == 1


def test_who_has_agreed_to_something_else_is_turned_away():
    post = FakePost(pinned=b"x" * 32)
    result, said = served(post, deadline=0.05, begin_with=CLIENTS - 1)
    assert post.pushed[1] == 1
    assert any("client 1 is turned away" in line for line in said)
    np.testing.assert_array_equal(result.state["ledger/client_rounds"][0, 0], [ROUNDS, 0, ROUNDS])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda data: data[:-1] + b"\0", "damaged"),
        (lambda data: b"x" * 10_000, "at most"),
        (lambda data: b"", "no mes"),
    ],
)
def test_a_wrong_answer_is_not_heard_and_not_asked_for_again(wrong, reason):
    post = FakePost(lambda client, count, data: wrong(data) if client == 1 else data)
    result, said = served(post, deadline=0.05)
    assert post.pushed[1] == 1 + ROUNDS + 1  # a greeting, the rounds, and the end
    assert sum("client 1 is not heard" in line and reason in line for line in said) == ROUNDS
    assert result.state["ledger/client_uplink_bits"].ravel()[1] == 0


def test_a_post_that_takes_nothing_is_tried_again():
    post, refused = FakePost(), []
    push = post.push

    def full(node, *message):
        if len(refused) < 4:
            return refused.append(node)
        return push(node, *message)

    post.push = full
    result, _ = served(post, begin_with=CLIENTS)
    assert len(refused) == 4
    assert (result.state["ledger/client_rounds"] == ROUNDS).all()


class TestRoster:
    def written(self, folder, text):
        (folder / "nodes.toml").write_text(text)
        return Roster.read(folder / "nodes.toml")

    def test_a_key_is_known_in_any_writing(self, tmp_path):
        roster = self.written(tmp_path, f'[nodes]\n7 = "{LINES[0]} ward@hospital"\n2 = "{LINES[1]}"\n')
        assert [roster.client_of(key.public_bytes(*PEM)) for key in KEYS] == [7, 2, None, None]
        assert roster.client_of(b"") is None
        roster.check(8)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("nodes = 3", r"must have one table \[nodes\]"),
            ("[nodes]", r"must have one table \[nodes\]"),
            ("[other]\n[nodes]\n", r"must have one table \[nodes\]"),
            ("[nodes", "is no TOML file"),
            ("[nodes]\n0 = 17", "must say NUMBER = 'PUBLIC KEY'"),
            ("[nodes]\n01 = 'a'", "must say NUMBER = 'PUBLIC KEY'"),
            ("[nodes]\none = 'a'", "must say NUMBER = 'PUBLIC KEY'"),
            ("[nodes]\n0 = 'abc'", "the key of client 0 must be a line of an OpenSSH .pub file"),
            (f"[nodes]\n0 = '{LINES[0]}'\n1 = '{LINES[0]}'", "clients 0 and 1 have the same key"),
        ],
    )
    def test_what_is_no_roster_is_refused(self, text, reason, tmp_path):
        with pytest.raises(ValueError, match=reason):
            self.written(tmp_path, text)

    def test_a_number_beyond_the_population_is_refused(self):
        with pytest.raises(ValueError, match="has clients 0 to 1, found client 2"):
            ROSTER.check(2)
