"""Two hundred devices at once, each with a certificate and a line of its own, in front of one server."""

import contextlib
import functools
import threading

import numpy as np
import pytest

import hush
from hush.core import keys
from hush.core.flat import initial
from hush.network import Authority, DeviceCredential, ServerCredential, agree, serve
from hush.network.identities import Identities
from hush.network.link import stay
from hush.network.serving import rehearsing
from hush.network.tls_link import TlsLink
from hush.network.tls_server import listen
from hush.settings import NetworkSettings, RunSettings

DEVICES = 200


@pytest.mark.slow
def test_two_hundred_devices_give_the_simulations_model(tmp_path):
    algorithm = hush.fedpaq(steps=2, lr=0.1, batch=4, levels=10)
    problem, run = hush.tasks.logistic_regression(DEVICES, 5, dimension=6), RunSettings(rounds=3, evaluate_every=3)
    authority = Authority.create(tmp_path / "enrolment", ["127.0.0.1"])
    credentials = [DeviceCredential.read(authority.enrol(f"device-{client}", client)) for client in range(DEVICES)]
    agreement = agree(algorithm, problem, run, rehearsal=True)
    start = initial(problem, keys.at(keys.root(0), "repetition", 0, "init"))
    ends, said = {}, []

    def visit(port, client):
        device = rehearsing(agreement, algorithm, problem, run, client, start)
        link = TlsLink(f"127.0.0.1:{port}", credentials[client])
        try:
            ends[client] = stay(link, device, patience=60.0, stopped=lambda: False, say=said.append)
        finally:
            link.close()

    @contextlib.contextmanager
    def connect(desk):
        folder = tmp_path / "enrolment"
        shown = {"credential": ServerCredential.read(folder), "identities": Identities(folder)}
        with listen(desk, address="127.0.0.1:0", **shown) as listening:
            visits = [functools.partial(visit, listening.port, client) for client in range(DEVICES)]
            threads = [threading.Thread(target=each) for each in visits]
            for thread in threads:
                thread.start()
            yield listening
            desk.end("over")
            for thread in threads:
                thread.join()

    rules = NetworkSettings(deadline=120.0, begin_with=DEVICES)
    found = serve(algorithm, problem, run, connect, rules=rules, rehearsal=True, progress=False)
    expected = hush.run(algorithm, problem, **run.keywords(), progress=False)
    np.testing.assert_allclose(found.vector, expected.vector, atol=1e-6)
    np.testing.assert_array_equal(found.state["ledger/client_uplink_bits"], expected.state["ledger/client_uplink_bits"])
    assert len(ends) == DEVICES
    assert all(ends.values())
