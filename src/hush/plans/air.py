"""Over the air: messages meet in the channel that is given, whose own noise protects as much as it does."""

from dataclasses import replace
from math import floor

from hush import algorithms
from hush.core.algorithm import Algorithm
from hush.core.costs import costs
from hush.plans.budgets import LONG, Infeasible
from hush.plans.candidate import Draft, Point
from hush.plans.choices import CLIP, SERVER_LR, Pick, cohort_of, sizes, steps_and_batch, variance, work
from hush.plans.scene import Scene
from hush.privacy import NoGuarantee, describe
from hush.privacy.shown import rounded_up

FAMILY = "over_the_air"
STEP_SIZE = 0.1  # of local steps; what is sent is clipped, so that the server's step size decides


def over_the_air(scene: Scene, pick: Pick) -> Draft:
    """Clipped updates, sent as they are, as loud as the channel's power rule has it."""
    channel = scene.channel
    if channel is None:
        raise ValueError("a plan over the air needs the channel: [channel] piece = 'over_the_air' …")
    local, clients = pick("local", work(scene)), pick("clients", sizes(scene))
    steps, batch = steps_and_batch(local)

    def build(point: Point, rounds: int, noise: float) -> Algorithm:
        made = algorithms.over_the_air(
            rule=channel.rule,
            fading=channel.fading,
            decibel=channel.decibel,
            noise_variance=channel.noise_variance,
            bound=point["clip"],
            steps=steps,
            lr=STEP_SIZE,
            batch=batch,
            server_lr=point["server_lr"],
        )
        return replace(made, cohort=cohort_of(scene, clients, "equal"))

    return Draft(
        family=FAMILY,
        choices={"local": local, "clients": clients, "coding": "none"},
        build=build,
        coordinates=(CLIP, SERVER_LR),
        clients=clients,
        steps=steps,
        batch=batch,
        variance=variance("none"),
        family_of=over_the_air,
        most_rounds=lambda: _most_rounds(scene, build({"clip": 1.0, "server_lr": 1.0}, 1, 0.0), clients),
    )


def _most_rounds(scene: Scene, algorithm: Algorithm, clients: int) -> int:
    """As many as the energy, the time on the channel and the privacy of its noise allow."""
    budgets, most = scene.budgets, float(LONG)
    if budgets.energy is not None:
        loudest = costs(algorithm, scene.problem).energy.most
        most = min(most, budgets.energy / loudest)
        if most < 1:
            raise Infeasible(
                f"an energy of {budgets.energy:g} is less than one round of {clients} clients: {loudest:g}"
            )
    if budgets.seconds is not None and budgets.capacity is not None:
        most = min(most, budgets.seconds * budgets.capacity / scene.dimension)
        if most < 1:
            raise Infeasible(
                f"{budgets.seconds:g} s are less than the {scene.dimension} uses of the channel of a round"
            )
    if budgets.epsilon is not None:
        try:
            found = describe(
                algorithm, scene.target, LONG, unit=budgets.unit, trust=budgets.trust, dimension=scene.dimension
            )
        except NoGuarantee as error:
            raise Infeasible(str(error)) from error
        most = min(most, found.rounds_within(budgets.epsilon, found.different[0], budgets.delta))
        if most < 1:
            least = found.epsilon([1] * len(found.phases), found.different[0], budgets.delta)
            raise Infeasible(
                f"ε = {budgets.epsilon:g} does not pay for one round over this channel: "
                f"the least would be {rounded_up(least)}"
            )
    return floor(most)
