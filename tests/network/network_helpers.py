"""A tiny federation, and the ways by which its bytes can go: in this process, and through TLS on this machine."""

import contextlib
import functools
import threading
import time
from typing import NamedTuple
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import hush
from hush.core import keys
from hush.core.flat import initial
from hush.network.agreement import agree
from hush.network.coordinator import Coordinator
from hush.network.credentials import Authority, DeviceCredential, ServerCredential
from hush.network.desk import Desk
from hush.network.federation import run_key
from hush.network.flower import exchange
from hush.network.flower.exchange import ByPost, Reply, Seen
from hush.network.flower.roster import Roster
from hush.network.identities import Identities
from hush.network.link import stay
from hush.network.memory import InMemory
from hush.network.messages import TOLD, kind_of, read_answer, write_answer, write_hello
from hush.network.serving import rehearsing
from hush.network.tls_link import TlsLink
from hush.network.tls_server import listen
from hush.settings import RunSettings

CLIENTS, ROUNDS = 4, 2
PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
SSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
HANGS = 60.0  # seconds after which a test is given up: nothing here takes so long
RUN = RunSettings(rounds=ROUNDS)


@functools.cache
def problem():
    return hush.tasks.logistic_regression(CLIENTS, 30, dimension=6)


@functools.cache
def fedavg():
    return hush.algorithms.fedavg(steps=2, lr=0.1, batch=4)


@functools.cache
def fedpaq():
    return hush.algorithms.fedpaq(steps=2, lr=0.1, batch=4, levels=10)


def start():
    return initial(problem(), keys.at(keys.root(RUN.seed), "repetition", 0, "init"))


def devices(algorithm, clients=range(CLIENTS)):
    agreement = agree(algorithm, problem(), RUN, rehearsal=True)
    return {client: rehearsing(agreement, algorithm, problem(), RUN, client, start()) for client in clients}


def desk_of(algorithm, notes=None):
    """A desk with nobody in front of it, and the coordinator behind it."""
    agreement = agree(algorithm, problem(), RUN, rehearsal=True)
    made = Coordinator(algorithm, problem(), run_key(0), run=b"tests...", agreement=agreement.digest, rehearsal=True)
    note = {} if notes is None else {"note": lambda event, **facts: notes.append((event, facts))}
    return Desk(made, agreement.text, **note), made


def straight(client, data, up):
    return data


def filled(value):
    """A well-formed answer that says one number everywhere."""

    def spoil(data):
        answer = read_answer(data)
        sizes = [len(payload) // 4 for payload in answer.payloads]
        return write_answer(answer._replace(payloads=tuple(np.full(n, value, ">f4").tobytes() for n in sizes)))

    return spoil


class AtTheDesk:
    """A line of no length."""

    def __init__(self, desk, client):
        self._desk, self._client = desk, client

    def hello(self, data):
        return self._desk.hello(self._client, data)

    def ask(self, seconds):
        until = time.monotonic() + seconds
        while (found := self._desk.offered(self._client)) is None and time.monotonic() < until:
            time.sleep(0.01)
        return found

    def answer(self, data):
        self._desk.hear(self._client, data)

    def close(self):
        pass


class Carried:
    """A line on which something happens to what is told and answered."""

    def __init__(self, link, client, carry):
        self._link, self._client, self._carry = link, client, carry
        self.hello, self.close = link.hello, link.close

    def ask(self, seconds):
        data = self._link.ask(seconds)
        told = data is not None and kind_of(data) == TOLD
        return self._carry(self._client, data, False) if told else data

    def answer(self, data):
        self._link.answer(self._carry(self._client, data, True))


class InThisProcess:
    """The exchange in memory; and lines that are calls of the desk."""

    @contextlib.contextmanager
    def connect(self, desk, devices, carry=straight):
        yield InMemory(desk, devices, carry)

    @contextlib.contextmanager
    def lines(self, desk):
        yield functools.partial(AtTheDesk, desk)


class ByMail:
    """Flower's exchange, with a post in this process in place of Flower: nodes say nothing unasked."""

    @contextlib.contextmanager
    def connect(self, desk, devices, carry=straight):
        made = ec.generate_private_key
        keys = {client: made(ec.SECP384R1()).public_key() for client in devices}
        roster = Roster({client: key.public_bytes(*SSH).decode() for client, key in keys.items()})
        mail = ByPost(Mail(devices, keys, carry), desk, roster, lambda text: None)
        with mock.patch.object(exchange, "POLL_SECONDS", 1e-3):
            yield mail
            mail.close()


class Mail:
    """Letters to nodes, which have other numbers than their clients; one is answered whenever replies are fetched."""

    def __init__(self, devices, keys, carry):
        self._devices, self._keys, self._carry, self._letters = devices, keys, carry, []

    def nodes(self):
        return [Seen(client + 1000, key.public_bytes(*PEM), "") for client, key in self._keys.items()]

    def push(self, node, welcome, data, seconds):
        self._letters.append((node - 1000, data))
        return str(len(self._letters) - 1)

    def pull(self, asked):
        number = min(asked, key=int)
        return [Reply(number, self._answer(*self._letters[int(number)]))]

    def _answer(self, client, data):
        if not data:
            return write_hello()
        if kind_of(data) != TOLD:
            return b""
        return self._carry(client, self._devices[client].hear(self._carry(client, data, False)), True)


class Taken(NamedTuple):
    """What became of devices that stayed, each in a thread of its own."""

    ends: dict
    said: dict
    failures: dict


class OverTls:
    """Sockets on this machine, certificates of an authority for the tests."""

    def __init__(self, folder, clients=range(CLIENTS), hosts=("localhost", "127.0.0.1"), days=365):
        self.folder, self.authority = folder, Authority.create(folder, hosts, days)
        for client in clients:
            self.authority.enrol(f"device-{client}", client)

    @property
    def server(self):
        return ServerCredential.read(self.folder)

    def credential(self, client):
        return DeviceCredential.read(self.folder / "devices" / f"device-{client}.pem")

    def listening(self, desk, address="127.0.0.1:0", **settings):
        named = {"credential": self.server, "identities": Identities(self.folder)}
        return listen(desk, address=address, **(named | settings))

    def link(self, port, client):
        return TlsLink(f"127.0.0.1:{port}", self.credential(client))

    @contextlib.contextmanager
    def lines(self, desk, **settings):
        with contextlib.ExitStack() as stack:
            port = stack.enter_context(self.listening(desk, **settings)).port
            yield lambda client: stack.enter_context(contextlib.closing(self.link(port, client)))

    @contextlib.contextmanager
    def connect(self, desk, devices, carry=straight):
        with self.listening(desk) as exchange:
            links = {client: Carried(self.link(exchange.port, client), client, carry) for client in devices}
            with staying(links, devices):
                yield exchange


@contextlib.contextmanager
def staying(links, devices):
    """Devices that stay until the end, or until the test is over."""
    taken, stop = Taken({}, {client: [] for client in devices}, {}), threading.Event()

    def one(client):
        try:
            with contextlib.closing(links[client]) as link:
                say = taken.said[client].append
                taken.ends[client] = stay(link, devices[client], patience=HANGS, stopped=stop.is_set, say=say)
        except Exception as failure:
            taken.failures[client] = failure

    threads = [threading.Thread(target=one, args=(client,)) for client in devices]
    for thread in threads:
        thread.start()
    try:
        yield taken
    except BaseException:
        stop.set()
        raise
    finally:
        for thread in threads:
            thread.join(HANGS)
        stop.set()


def hello(port, credential):
    with contextlib.closing(TlsLink(f"127.0.0.1:{port}", credential)) as link:
        return link.hello(write_hello())


def until(condition):
    """Wait for something that must come."""
    limit = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.01)
