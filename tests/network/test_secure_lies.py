"""A server that lies to devices about a secure sum: what they decline, and what it gains by it."""

import jax.numpy as jnp
import pytest
from summed import CLIENTS, ONE_ROUND, PROBLEM, SUMMED, TASK, enrolled, federated

import hush
from hush.core.floats import WireError
from hush.core.shares import SECURITY
from hush.network import Guard, agree, device_step
from hush.network.joining import prepared
from hush.network.messages import DECLINED, kind_of, read_answer, read_told, write_told
from hush.network.secure_sum import Refused, Summation, Terms, odds
from hush.network.secure_sum.messages import longest_answer, read_keys, write_keys
from hush.network.steps import ASKED, STEPPED, read_opening, read_step, write_opening, write_step
from hush.network.summing import Round, longest_of, terms_at_most, terms_of


@pytest.fixture(scope="module")
def enrolment(tmp_path_factory):
    return enrolled(tmp_path_factory.mktemp("enrolment"))


def opening_of(line):
    """With what the first client's part in a sum began."""
    return next(data for client, data, up in line.seen if client == 0 and not up and data[5] == ASKED)


@pytest.fixture(scope="module")
def opening(enrolment, tmp_path_factory):
    """The same in a round that went well, for a server to change and to say to devices that have heard nothing yet."""
    return opening_of(federated(enrolment, tmp_path_factory.mktemp("well"), run=ONE_ROUND)[1])


class TestAServerThatLies:
    """What a device says to it."""

    def first(self, enrolment, tmp_path):
        _, line, devices = federated(enrolment, tmp_path, run=ONE_ROUND)
        return line, devices[0], opening_of(line)

    @pytest.mark.slow
    def test_the_same_round_in_a_second_sum_is_declined(self, enrolment, tmp_path):
        """With another cohort in it, the difference of the two would be what one client says."""
        own, _ = enrolment
        _, _, opening = self.first(enrolment, tmp_path)
        agreement = agree(SUMMED, PROBLEM, ONE_ROUND, True, task=TASK)
        again = prepared(agreement, 0, "task", tmp_path / "device-0", rehearse=True, credential=own[0])
        said = again.hear(opening)
        assert kind_of(said) == DECLINED
        assert "round 0 was answered in another sum" in read_answer(said).reason

    @pytest.mark.slow
    def test_the_last_step_again_is_answered_with_the_same_bytes_and_earlier_ones_are_not(self, enrolment, tmp_path):
        line, device, opening = self.first(enrolment, tmp_path)
        told = [data for client, data, up in line.seen if client == 0 and not up]
        sent = [data for client, data, up in line.seen if client == 0 and up]
        assert device.hear(told[-1]) == sent[-1]
        assert kind_of(device.hear(told[2])) == DECLINED
        assert kind_of(device.hear(opening)) == DECLINED

    @pytest.mark.slow
    def test_an_answer_by_itself_is_never_sent(self, enrolment, tmp_path):
        _, device, opening = self.first(enrolment, tmp_path)
        _, told = read_opening(read_step(ASKED, opening).body)
        said = device.hear(told)
        assert "an answer is never sent by itself" in read_answer(said).reason

    def test_a_sum_of_too_few_to_hide_in_is_declined(self, enrolment, opening, tmp_path):
        own, _ = enrolment
        step = read_step(ASKED, opening)
        clients, told = read_opening(step.body)
        agreement = agree(SUMMED, PROBLEM, ONE_ROUND, True, task=TASK)
        (tmp_path / "new").mkdir()
        device = prepared(agreement, 0, "task", tmp_path / "new", rehearse=True, credential=own[0])
        few = write_step(ASKED, step._replace(body=write_opening((0, 1), told)))
        assert "protects too little" in read_answer(device.hear(few)).reason
        more = write_step(ASKED, step._replace(body=write_opening((0, 1, 2, 3, 4, 5), told)))
        assert "a sum of 6 clients, where cohorts of 5 were agreed to" in read_answer(device.hear(more)).reason
        strangers = write_step(ASKED, step._replace(body=write_opening((0, 7, 8, 9, 1000), told)))
        assert "a sum with client 1000, where 5 clients were agreed to" in read_answer(device.hear(strangers)).reason
        elsewhere = write_step(ASKED, step._replace(body=write_opening(clients[1:], told)))
        assert "no member of this sum" in read_answer(device.hear(elsewhere)).reason
        assert device.guard.participations == (0,)


def test_a_step_by_itself_makes_no_bytes_to_send():
    """Such bytes would have one client's share of the noise."""
    guard = Guard(
        SUMMED, PROBLEM.population, 0, dimension=6, rounds=1, epsilon=100.0, delta=1e-3, trust="sum", rehearsal=True
    )
    told = {"round": jnp.int32(0), "common": hush.keys.root(0), "model": jnp.zeros(6)}
    with pytest.raises(Refused, match="an answer is never sent by itself"):
        device_step(guard, told, hush.init_client(SUMMED, jnp.zeros(6)), PROBLEM.client(0))
    assert guard.participations == (0,)


class TestTheServersSay:
    """What a server could choose, were it not in what members agree on."""

    def hears(self, enrolment, opening, tmp_path, change):
        """A new device's first answer where the server tells the round otherwise than it told the others."""
        answer, terms = self.says(enrolment, opening, tmp_path, change)
        return read_step(STEPPED, answer).body, terms

    def says(self, enrolment, opening, tmp_path, change):
        own, _ = enrolment
        step = read_step(ASKED, opening)
        clients, told = read_opening(step.body)
        changed = write_opening(clients, write_told(change(read_told(told))))
        (tmp_path / "new").mkdir()
        agreement = agree(SUMMED, PROBLEM, ONE_ROUND, True, task=TASK)
        device = prepared(agreement, 0, "task", tmp_path / "new", rehearse=True, credential=own[0])
        terms = [self.terms(step, clients, each) for each in (read_told(told), change(read_told(told)))]
        return device.hear(write_step(ASKED, step._replace(body=changed))), terms

    def terms(self, step, clients, told):
        which = Round(*step[:1], told.agreement, *step[1:3], told.digest)
        return terms_of(SUMMED, 6, CLIENTS, clients, which)

    @pytest.mark.parametrize(
        "change",
        [
            lambda told: told._replace(vectors=(told.vectors[0] + 1,)),
            lambda told: told._replace(common=bytes(8)),
        ],
        ids=["model", "common key"],
    )
    def test_a_device_that_is_told_another_round_is_in_no_sum_with_the_others(
        self, enrolment, opening, tmp_path, change
    ):
        """Else a server would tell all but one a model from which nothing is learnt, and see in the sum what it says.

        Nor does it help to say that what the device has signed is of the others' sum.
        """
        keys, (others, own) = self.hears(enrolment, opening, tmp_path, change)
        assert read_keys(own, keys).client == 0
        with pytest.raises(WireError, match="a message of another sum"):
            read_keys(others, keys)
        renamed = write_keys(others, read_keys(own, keys))
        with pytest.raises(Refused, match="a signature that is not of client 0"):
            Summation(others, enrolment[1]).accept(0, renamed)

    @pytest.mark.parametrize("length", [0, 7, 12])
    def test_a_common_key_of_another_length_is_declined(self, enrolment, opening, tmp_path, length):
        answer, _ = self.says(enrolment, opening, tmp_path, lambda told: told._replace(common=bytes(length)))
        assert read_answer(answer).reason == f"the common key must have 8 bytes, found {length}"

    @pytest.mark.slow
    def test_what_differs_for_each_device_is_in_no_digest(self, enrolment, opening, tmp_path):
        """When its answer was last used is each device's own matter."""
        keys, (others, own) = self.hears(enrolment, opening, tmp_path, lambda told: told._replace(used=-1))
        assert own == others
        assert read_keys(others, keys).client == 0


def test_a_smaller_cohort_has_as_many_who_may_collude():
    """ε counts with a tenth of 1,000 places. A server that names 833 of them may still have 100 friends there.

    With circles for 83 of them, 100 would break one with more than 2**-40.
    """
    phase = hush.secure_dp_fedavg(1000, 1000, clip=1.0, dimension=6, noise_multiplier=2.0, bits=16, steps=1)
    which = Round(b"run", b"agreement", 0, 0, b"told")
    for named in (1000, 833, 667):
        terms = terms_of(phase, 6, 1000, range(named), which)
        assert terms.colluding == 100 == phase.channel.threshold - phase.channel.honest(1000)
        risk = odds.exposure(named, 100, terms.threshold, terms.chosen, terms.needed)
        assert terms.whole or risk <= -SECURITY
        assert longest_of(terms_at_most(phase, 6, 1000)).answer > longest_answer(
            terms
        )  # a circle of fewer may be a larger one
    loose = Terms.of(b"x", tuple(range(833)), 16, 6, phase.channel.threshold)
    assert odds.exposure(833, 100, loose.threshold, loose.chosen, loose.needed) > -SECURITY
