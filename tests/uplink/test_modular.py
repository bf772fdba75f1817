"""Messages as whole numbers that add up: rotation, rounding, sums, and how fine they may be."""

import math
from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hush
from hush.core.keys import at, root
from hush.uplink import DiscreteGaussian, Modular, Skellam, fitted, modular
from hush.uplink.fitting import overflow, room_for_noise
from hush.uplink.modular import longest, rounded_exactly
from hush.uplink.turning import span, turned, turned_back

QUIET = DiscreteGaussian(0.5)
SHAPES = st.sampled_from([1, 3, 37, 64])  # each is compiled
SIZES = {"bound": 1.0, "dimension": 500, "clients": 40, "honest": 30, "noise_multiplier": 1.0}


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def seeded(seed):
    return np.random.default_rng(seed).bytes


class TestTurning:
    @settings(max_examples=12)
    @given(dimension=SHAPES, seed=st.integers(0, 9))
    def test_it_keeps_lengths_and_angles_and_is_undone(self, dimension, seed):
        matrix = np.asarray(jax.jit(jax.vmap(turned, (None, 0)))(root(seed), jnp.eye(dimension)))
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(dimension), atol=1e-5)
        vector = drawn(seed, dimension)
        there = jax.jit(turned)(root(seed), vector)
        np.testing.assert_allclose(there, vector @ matrix, atol=1e-5)
        np.testing.assert_allclose(jax.jit(turned_back)(root(seed), there), vector, atol=1e-5)

    @pytest.mark.parametrize("place", [0, 64, 99])
    def test_no_number_sticks_out_whatever_the_vector_is(self, place):
        """Sub-Gaussian with deviation 1/√n: 5 of them are passed by one of 40,000 numbers with a chance of 0.15."""
        vector = jnp.zeros(100).at[place].set(1.0)
        found = jax.vmap(lambda key: turned(key, vector))(jax.random.split(root(1), 400))
        assert float(jnp.abs(found).max()) <= 5 / math.sqrt(span(100))


class TestLongest:
    @settings(max_examples=60)
    @given(dimension=st.integers(1, 300), length=st.floats(0.01, 1e4), seed=st.integers(0, 5))
    def test_rounding_hardly_ever_makes_a_message_longer(self, dimension, length, seed):
        """With a probability of 1e-6 at most each: in 60 cases of 200 roundings one is passed with a chance of 1 %."""
        draws = np.random.default_rng(seed)
        vector = draws.normal(size=dimension) if seed else np.ones(dimension)
        exact = length * vector / np.linalg.norm(vector)
        rounded = np.floor(exact + draws.random((200, dimension)))
        assert np.linalg.norm(rounded, axis=1).max() <= longest(length, dimension)

    @settings(max_examples=40)
    @given(dimension=st.integers(1, 10**6), length=st.floats(1e-3, 1e6))
    def test_it_lies_between_the_length_before_and_one_step_a_number_more(self, dimension, length):
        assert length <= longest(length, dimension) <= length + math.sqrt(dimension)

    def test_it_grows_with_the_length_and_is_never_beyond_the_papers(self):
        lengths = np.geomspace(1e-3, 1e5, 200)
        found = [longest(each, 7850) for each in lengths]
        assert (np.diff(found) > 0).all()
        luck = math.sqrt(2 * math.log(1e6))  # Kairouz, Liu, Steinke 2021, Theorem 1, with β = 1e-6
        paper = [math.sqrt(c**2 + 7850 / 4 + luck * (c + math.sqrt(7850) / 2)) for c in lengths]
        assert (np.array(found) <= np.array(paper) + 1e-9).all()


class TestExactRounding:
    @settings(max_examples=60)
    @given(
        dimension=st.integers(1, 50),
        bound=st.floats(2.0**-20, 2.0**20, width=32),
        steps=st.floats(0.01, 1e6),
        size=st.sampled_from([0.5, 1.0, 1.0001, 3.0, 1e6]),
        seed=st.integers(0, 99),
    )
    def test_the_bound_holds_in_whole_numbers(self, dimension, bound, steps, size, seed):
        vector = drawn(seed, dimension)
        vector *= np.float32(size * bound / max(np.linalg.norm(vector), 1e-6))
        found = rounded_exactly(vector, bound, steps / bound, seeded(seed))
        assert sum(int(each) ** 2 for each in found) <= Fraction(longest(bound * (steps / bound), dimension)) ** 2

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_what_is_no_number_counts_as_nothing(self, bad):
        assert rounded_exactly(np.array([0.1, bad], np.float32), 1.0, 100.0).tolist() == [0, 0]

    def test_it_has_no_bias(self):
        """Means of 20,000 roundings, each of deviation ½ at most: 5 deviations are passed once in a million."""
        vector = np.array([0.3, -0.71, 0.5, 0.004], np.float32)
        source = seeded(1)
        mean = np.mean([rounded_exactly(vector, 1.0, 10.0, source) for _ in range(20_000)], axis=0)
        np.testing.assert_allclose(mean, 10 * vector, atol=5 * 0.5 / math.sqrt(20_000))

    def test_unlucky_coins_make_it_shorter_and_not_longer(self):
        vector = np.full(400, 0.5 / 20, np.float32)  # half a step each at a scale of 20
        always_up = lambda size: b"\xff" * size  # noqa: E731
        found = rounded_exactly(vector, 0.5, 20.0, always_up)
        assert found.tolist() == [0] * 400

    def test_it_is_tried_again(self):
        """The first coins are all bad, the next ones good."""
        vector = np.full(400, 0.5 / 20, np.float32)
        sizes = []

        def second_time_lucky(size):
            sizes.append(size)
            return b"\xff" * size if len(sizes) == 1 else np.random.default_rng(0).bytes(size)

        found = rounded_exactly(vector, 0.5, 20.0, second_time_lucky)
        assert len(sizes) == 2
        assert set(found.tolist()) == {0, 1}


def test_in_a_simulation_too_rounding_is_conditional(monkeypatch):
    """With a bound that two roundings in five pass: none that comes out does, and few are cut towards zero.

    Half a step in each of 400 numbers: the square of a length is a binomial number, B(400, ½). At most 202 pass with
    p = 0.6, and none of eight tries with a chance of 7e-4: of 500 messages less than 5 are cut, but once in 10^5 times.
    """
    monkeypatch.setattr(modular, "longest", lambda length, dimension: math.sqrt(202.5))
    stage = Modular(16, 1.0, 10.0, Skellam(1.0))
    straight = jnp.full(400, 0.05)
    rounded = jax.jit(jax.vmap(lambda key: stage._rounded(key, straight)))(jax.random.split(root(5), 500))
    squares = np.sum(np.square(np.asarray(rounded)), axis=1)
    assert squares.max() == 202
    assert np.sum(squares == 0) < 5
    kept = np.arange(0, 203)
    law = stats.binom.pmf(kept, 400, 0.5) / stats.binom.cdf(202, 400, 0.5)
    assert squares[squares > 0].mean() == pytest.approx(kept @ law, abs=5 * 10 / math.sqrt(495))


@eqx.filter_jit
def _encoded(stage, key, common, vector):
    return stage.encode_in(key, common, jnp.asarray(vector), {})[0]["integers"]


class TestCodes:
    @settings(max_examples=12)
    @given(dimension=SHAPES, clients=st.integers(1, 6), width=st.sampled_from([8, 31]), seed=st.integers(0, 99))
    def test_the_sum_of_codes_is_the_code_of_the_sum(self, dimension, clients, width, seed):
        """In any order and number, modulo 2^width: held to Python's whole numbers."""
        stage, common = Modular(width, 1.0, 3.0, QUIET), root(seed)
        codes = [_encoded(stage, at(root(1), k), common, drawn(seed + k, dimension)) for k in range(clients)]
        total = [sum(int(code[i]) for code in codes) % 2**width for i in range(dimension)]
        signed = np.array([each - 2**width * (each >= 2 ** (width - 1)) for each in total])
        expected = turned_back(common, jnp.asarray(signed / 3.0, jnp.float32))
        summed = sum(code.astype(jnp.uint32) for code in codes)
        np.testing.assert_allclose(stage.open(summed, dimension, common), expected, rtol=1e-5, atol=1e-5)

    @settings(max_examples=12)
    @given(dimension=SHAPES, width=st.sampled_from([2, 16, 31]), seed=st.integers(0, 99))
    def test_its_bits_are_those_of_its_bytes(self, dimension, width, seed):
        stage = Modular(width, 1.0, 50.0, Skellam(3.0))
        code = {"integers": _encoded(stage, root(seed), root(0), drawn(seed, dimension))}
        data = stage.pack(code, dimension)
        assert 8 * len(data) == stage.bits(code, dimension) == 8 * math.ceil(width * dimension / 8)
        assert (stage.unpack(data, dimension)["integers"] == code["integers"]).all()

    @pytest.mark.parametrize("source", ["address", "system"])
    @pytest.mark.parametrize("noise", [DiscreteGaussian, Skellam])
    def test_what_arrives_is_right_on_average_with_the_noise_it_says(self, noise, source):
        """4,000 messages: means within 5 deviations, mean squares within 15 %, which is 9 deviations."""
        stage = Modular(20, 1.0, 40.0, noise(8.0, source))
        vector = jnp.array([0.5, -0.2, 0.0, 0.1, 0.7])
        arrive = jax.jit(jax.vmap(lambda key: stage.decode(stage.encode(key, vector, {})[0], 5)))
        found = np.asarray(arrive(jax.random.split(root(2), 4000)))
        deviation = math.sqrt(8.0**2 + 1 / 4) / 40
        np.testing.assert_allclose(found.mean(axis=0), vector, atol=5 * deviation / math.sqrt(4000))
        np.testing.assert_allclose(found.var(axis=0), deviation**2, rtol=0.15)

    def test_a_long_message_is_clipped_and_one_that_is_none_counts_as_zero(self):
        stage = Modular(24, 0.5, 1000.0, QUIET)
        long, _, info = stage(root(0), jnp.array([30.0, 40.0]), {})
        np.testing.assert_allclose(long, [0.3, 0.4], atol=0.01)
        assert bool(info["clipped"])
        nothing, _, _ = stage(root(0), jnp.array([jnp.nan, 1.0]), {})
        np.testing.assert_allclose(nothing, [0, 0], atol=0.01)

    @pytest.mark.parametrize(
        ("settings_", "reason"),
        [
            ((1, 1.0, 1.0, QUIET), "width must be a whole number from 2 to 31, found 1"),
            ((16, 0.0, 1.0, QUIET), "bound must be a positive number"),
            ((16, 1.0, -1.0, QUIET), "scale must be a positive number"),
            ((16, 1.0, 2.0**25, QUIET), "bound · scale must be at most"),
            ((16, np.float16(1), 1e12, QUIET), "bound · scale must be at most"),  # where 2^24 is infinity, too
            ((16, 1.0, 1.0, 3.0), "noise must be a DiscreteGaussian or a Skellam, found 3.0"),
        ],
    )
    def test_settings_that_make_no_sense_are_refused(self, settings_, reason):
        with pytest.raises(ValueError, match=reason):
            Modular(*settings_)


class TestFitting:
    @pytest.mark.parametrize("noise", [DiscreteGaussian, Skellam])
    def test_sums_stay_in_range_where_all_send_the_same(self, noise):
        """Numbers leave it once in a hundred at most, as is asked for, and the scale is not far from the finest."""
        stage = fitted(noise, **SIZES, bits=10, wrapped=0.01)
        vector = jnp.zeros(500).at[7].set(1.0)  # the worst: all of it in one place

        def total(key):
            keys = jax.random.split(at(key, "clients"), 40)
            codes = jax.vmap(lambda own: stage.encode_in(own, at(key, "common"), vector, {})[0]["integers"])(keys)
            signed = jax.lax.bitcast_convert_type(codes << 22, jnp.int32) >> 22
            return jnp.sum(signed, axis=0)  # what the sum would be with room enough

        found = np.asarray(jax.jit(jax.vmap(total))(jax.random.split(root(4), 30)))
        assert np.mean(np.abs(found) >= 512) <= 0.01
        assert np.abs(found).max() > 512 / 3

    def test_noise_of_the_fewest_is_what_is_asked_for(self):
        stage = fitted(Skellam, **SIZES)
        together = stage.noise.std * math.sqrt(30)
        assert together == pytest.approx(longest(stage.scale, 500), rel=1e-9)

    def test_more_bits_are_finer_and_more_clients_are_coarser(self):
        scales = [fitted(Skellam, **SIZES, bits=bits).scale for bits in (8, 10, 12, 14, 16)]
        assert (np.diff(scales) > 0).all()
        crowd = fitted(Skellam, **SIZES | {"clients": 4000}, bits=12).scale
        assert crowd < scales[2]

    def test_too_few_bits_are_refused_with_how_many_will_do(self):
        with pytest.raises(ValueError, match="6 bits have no room for the noise of 4000 clients in 500 numbers; take"):
            fitted(Skellam, **SIZES | {"clients": 4000, "honest": 3000}, bits=6)

    @pytest.mark.parametrize(("dimension", "clients", "bits"), [(10, 5, 24), (1000, 100, 31), (1, 1, 31), (9, 50, 16)])
    def test_the_largest_noise_is_one_that_clients_can_draw(self, dimension, clients, bits):
        """With many bits it is not the range that ends it, but the tables; numbers may be NumPy's."""
        sizes = {"dimension": np.int32(dimension), "clients": np.int64(clients), "honest": clients, "bits": bits}
        _, high = room_for_noise(**sizes)
        assert fitted(Skellam, **sizes, bound=1.0, noise_multiplier=high).noise.std <= 4096
        with pytest.raises(ValueError, match=r"no room for the noise .*(bits or more|ask for less noise)"):
            fitted(Skellam, **sizes, bound=1.0, noise_multiplier=1.01 * high)

    @settings(max_examples=30)
    @given(
        dimension=st.integers(1, 10**6),
        clients=st.integers(2, 2000),
        share=st.floats(0.1, 1.0),
        bits=st.integers(6, 24),
        place=st.floats(0, 1),
        bound=st.floats(1e-3, 1e3),
    )
    def test_there_is_room_for_the_noise_that_is_said_and_for_no_other(
        self, dimension, clients, share, bits, place, bound
    ):
        sizes = {"dimension": dimension, "clients": clients, "honest": max(1, int(share * clients)), "bits": bits}
        try:
            low, high = room_for_noise(**sizes)
        except ValueError:  # for none
            return
        stage = fitted(Skellam, **sizes, bound=bound, noise_multiplier=low * (high / low) ** place)
        assert bound * stage.scale >= 0.01 * (1 - 1e-9)  # something of a message is left
        # The noise in whole numbers is that of every other bound.
        other = fitted(Skellam, **sizes, bound=3 * bound, noise_multiplier=low * (high / low) ** place)
        assert other.noise == stage.noise
        if high < 1e6:
            with pytest.raises(ValueError, match="no room"):
                fitted(Skellam, **sizes, bound=bound, noise_multiplier=1.01 * high)

    @settings(max_examples=20)
    @given(gaussian=st.floats(0.1, 100), noise=st.floats(1.0, 400), room=st.floats(1.0, 8.0))
    def test_the_bound_on_overflow_is_one(self, gaussian, noise, room):
        """Against the Gaussian tail where all is Gaussian, and Skellam's own by SciPy."""
        whole = room * math.sqrt(gaussian + noise)
        assert overflow(whole, gaussian + noise, 1e-12) >= 2 * stats.norm.sf(room) or room < 1e-3
        alone = room * math.sqrt(noise)
        assert overflow(alone, 0.0, noise) >= 2 * stats.skellam.sf(math.ceil(alone) - 1, noise / 2, noise / 2) - 1e-12


class TestMeeting:
    STAGE = Modular(16, 1.0, 100.0, QUIET)
    TRAINED = hush.local.LocalSGD(0.1, steps=1)

    def algorithm(self, *uplink, channel=None, cohort=None):
        cohort = hush.cohort.Uniform(3, "equal") if cohort is None else cohort
        return hush.Algorithm(cohort, self.TRAINED, uplink, channel or hush.channel.SecureSum(2))

    def test_codes_that_add_up_need_a_channel_that_adds_them_up(self):
        with pytest.raises(ValueError, match="the codes of Modular mean something in a sum only"):
            self.algorithm(self.STAGE, channel=hush.channel.Digital())

    @pytest.mark.parametrize("uplink", [(), (hush.uplink.QSGD(3),), (STAGE, hush.uplink.Clip(1.0)), (STAGE, STAGE)])
    def test_a_secure_sum_needs_such_codes_last_and_once(self, uplink):
        with pytest.raises(ValueError, match="put the stage Modular last in the uplink, once"):
            self.algorithm(*uplink)

    def test_clients_of_unequal_weight_are_refused(self, unequal):
        algorithm = self.algorithm(self.STAGE, cohort=hush.cohort.Uniform(3))
        with pytest.raises(ValueError, match="inside a secure sum all clients weigh the same"):
            hush.run(algorithm, unequal, rounds=1, progress=False)

    def test_a_threshold_that_is_never_reached_is_refused(self, unequal):
        algorithm = self.algorithm(self.STAGE, channel=hush.channel.SecureSum(4))
        with pytest.raises(ValueError, match="a secure sum of 4 clients at least is never reached"):
            hush.run(algorithm, unequal, rounds=1, progress=False)

    def test_a_round_of_too_few_moves_nothing(self, unequal):
        cohort = hush.cohort.Poisson(0.3, "equal")
        algorithm = self.algorithm(self.STAGE, cohort=cohort)
        simulation = hush.execution.simulation.Simulation(algorithm, unequal)
        before, kept = simulation.models[0].copy(), []
        for _ in range(12):
            simulation.advance(1)
            moved = bool((simulation.models[0] != before).any())
            taken = simulation.ledger.client_rounds[0, 0].sum() - sum(kept)
            assert moved == (taken >= 2)
            before = simulation.models[0].copy()
            kept.append(taken)
        assert min(kept) < 2 <= max(kept)
