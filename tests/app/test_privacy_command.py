"""`hush privacy`, from what is asked to what is printed."""

import json
import re

import pytest
from typer.testing import CliRunner

from hush.app.main import app
from hush.privacy import Poisson, Release, Subset, Unsampled, noise_multiplier_for, rounds_within, spent
from hush.privacy.shown import rounded_up

CLIENTS = ("--clients", "1920", "--per-round", "80", "--delta", "1e-5")
TWO = ("--rounds", 3, "--noise", 1.0)
EXAMPLES = ("--examples", "600", "--subset", "120", "--delta", "1e-4")


def hush(*arguments):
    return CliRunner().invoke(app, ["privacy", *map(str, arguments)])


def fine(*arguments):
    result = hush(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def answers(*arguments):
    found = json.loads(fine(*arguments, "--json"))
    return found, {way["sampling"]: way for way in found["ways"]}


def rows(text):
    """The cells of a printed table's rows, by their first."""
    lines = [[cell.strip() for cell in line.strip("│\n ").split("│")] for line in text.splitlines() if "│" in line]
    return {line[0]: line[1:] for line in lines}


def figures(found):
    return found.rdp, found.pld, found.epsilon


def about(noise):
    """What two searches for the same noise may differ by."""
    return pytest.approx(noise, rel=1e-3)


class TestClients:
    def test_epsilon(self):
        found, ways = answers(*CLIENTS, "--rounds", 100, "--noise", 1.53)
        assert (found["asked"], found["level"], found["warning"]) == ("epsilon", "client", None)
        expected = spent({Release(1.53, "add-or-remove", Poisson(80 / 1920)): 100}, 1e-5)
        poisson = ways["Poisson"]
        # But for the rounds of a Poisson cohort that may find too few places, 1e-15 of δ each.
        assert [poisson[name] for name in ("rdp", "pld", "least")] == pytest.approx(figures(expected), rel=1e-6)
        assert poisson["rdp"] == pytest.approx(1.5, abs=0.005)
        # A replaced client moves the sum by 2c: the same noise is half the multiplier.
        fixed = ways["fixed number without replacement"]
        expected = spent({Release(1.53 / 2, "replace", Subset(80, 1920)): 100}, 1e-5)
        assert [fixed[name] for name in ("rdp", "pld", "least")] == pytest.approx(figures(expected), rel=1e-6)
        assert (fixed["sensitivity"], fixed["neighbours"]) == (2, "replace")

    def test_printed_as_tables_with_all_that_is_assumed(self):
        text = fine(*CLIENTS, "--rounds", 100, "--noise", 1.53)
        assert "ε for noise 1.53, rounds 100, δ 1e-05" in text
        table = rows(text)
        drawn = spent({Release(1.53, "add-or-remove", Poisson(80 / 1920)): 100}, 1e-5 - 1e-13)
        fixed = spent({Release(1.53 / 2, "replace", Subset(80, 1920)): 100}, 1e-5)
        assert (drawn.pld, fixed.pld) == (pytest.approx(1.331, abs=1e-3), pytest.approx(5.878, abs=1e-3))
        said = [rounded_up(epsilon, 4) for epsilon in (drawn.rdp, drawn.pld, drawn.epsilon)]
        assert table["Poisson"] == ["add-or-remove", "c", "0.04167", *said]
        said = [rounded_up(epsilon, 4) for epsilon in (fixed.rdp, fixed.pld, fixed.epsilon)]
        assert table["fixed number without replacement"] == ["replace", "2c", "0.04167", *said]
        assert "–:" not in text
        assert set(table) >= {"unit", "neighbours", "noise", "sensitivity", "trust", "sampling", "composition", "δ"}
        assert "publishes only what has the noise" in table["trust"][0]
        assert "80 of 1920 clients" in table["sampling"][0]

    def test_noise(self):
        _, ways = answers(*CLIENTS, "--rounds", 100, "--epsilon", 1.5)
        way = ("add-or-remove", Poisson(80 / 1920))
        assert ways["Poisson"]["rdp"] == about(noise_multiplier_for(1.5, 1e-5, 100, *way, "rdp"))
        assert ways["Poisson"]["rdp"] == pytest.approx(1.53, abs=0.005)
        assert ways["Poisson"]["least"] == about(noise_multiplier_for(1.5, 1e-5, 100, *way))
        assert ways["Poisson"]["least"] < ways["Poisson"]["rdp"]
        fixed = ways["fixed number without replacement"]
        assert fixed["rdp"] == about(2 * noise_multiplier_for(1.5, 1e-5, 100, "replace", Subset(80, 1920), "rdp"))
        assert fixed["pld"] == about(2 * noise_multiplier_for(1.5, 1e-5, 100, "replace", Subset(80, 1920), "pld"))
        assert fixed["least"] == about(fixed["pld"])
        assert fixed["least"] < fixed["rdp"]

    def test_a_delta_too_near_rounding_for_distributions(self):
        text = fine("--clients", 1920, "--per-round", 80, "--delta", 1e-12, "--rounds", 100, "--noise", 1.53)
        assert rows(text)["Poisson"][-2] == "–"
        assert "–: δ is too near rounding for privacy loss distributions" in text

    def test_noise_put_back_in_is_within_epsilon(self):
        noise = rows(fine(*CLIENTS, "--rounds", 100, "--epsilon", 1.5))["Poisson"][-1]
        _, ways = answers(*CLIENTS, "--rounds", 100, "--noise", noise)
        assert 1.49 < ways["Poisson"]["least"] <= 1.5

    def test_rounds(self):
        _, ways = answers(*CLIENTS, "--noise", 1.53, "--epsilon", 1.5)
        release = Release(1.53, "add-or-remove", Poisson(80 / 1920))
        assert ways["Poisson"]["rdp"] == 100
        assert ways["Poisson"]["least"] == rounds_within(release, 1.5, 1e-5) > 100
        assert ways["fixed number without replacement"]["least"] == 0
        table = rows(fine("--clients", 10**6, "--per-round", 1, "--delta", 1e-9, "--noise", 1000, "--epsilon", 5))
        assert table["Poisson"][-1] == "100000 or more"

    @pytest.mark.parametrize("per_round", [(), ("--per-round", 50)])
    def test_everyone(self, per_round):
        text = fine("--clients", 50, *per_round, "--delta", 1e-3, "--rounds", 10, "--noise", 20)
        lines = [re.split(r"\s*│\s*", line.strip("│ ")) for line in text.splitlines() if "│ everyone" in line]
        exact = [spent({Release(noise, "replace", Unsampled()): 10}, 1e-3).epsilon for noise in (20, 10)]
        assert [line[1:3] for line in lines] == [["add-or-remove", "c"], ["replace", "2c"]]
        assert [line[6] for line in lines] == [rounded_up(epsilon, 4) for epsilon in exact]
        assert "nothing is gained by it" in text
        assert "–:" not in text

    def test_no_list_of_a_billion_clients_is_made(self):
        found = fine("--clients", 10**9, "--per-round", 10**6, "--delta", 1e-10, "--rounds", 10, "--noise", 4)
        assert float(rows(found)["Poisson"][-1]) < 0.1

    def test_no_noise_is_infinite(self):
        assert rows(fine(*CLIENTS, "--rounds", 1, "--noise", 0))["Poisson"][-3:] == ["∞", "∞", "∞"]
        _, ways = answers(*CLIENTS, "--rounds", 1, "--noise", 0)
        assert ways["Poisson"]["least"] == "Infinity"


class TestExamples:
    def test_a_subset(self):
        found, ways = answers(*EXAMPLES, "--rounds", 10, "--noise", 4.3)
        expected = spent({Release(4.3, "replace", Subset(120, 600)): 10}, 1e-4)
        assert ways["subset without replacement"]["least"] == expected.epsilon == pytest.approx(0.48, abs=0.005)
        assert ways["subset without replacement"]["rate"] == 0.2
        assert "honest but curious" in found["assumptions"]["trust"]
        assert "120 of 600 examples without replacement" in found["assumptions"]["sampling"]
        assert "10 rounds that the client takes part in" in found["assumptions"]["composition"]

    def test_no_sampling(self):
        found, ways = answers("--examples", 600, "--delta", 1e-4, "--rounds", 100, "--noise", 4.3436)
        assert ways["all examples"]["least"] == ways["all examples"]["pld"] == pytest.approx(10.6, abs=0.05)
        assert "nothing is gained" in found["assumptions"]["sampling"]

    def test_noise_and_rounds(self):
        _, ways = answers(*EXAMPLES, "--rounds", 10, "--epsilon", 1)
        noise = ways["subset without replacement"]["least"]
        assert noise == about(noise_multiplier_for(1.0, 1e-4, 10, "replace", Subset(120, 600)))
        found, ways = answers(*EXAMPLES, "--noise", noise, "--epsilon", 1)
        assert ways["subset without replacement"]["least"] == 10
        assert found["assumptions"]["composition"].startswith("all rounds")


class TestQuestions:
    @pytest.mark.parametrize(
        ("message", "arguments"),
        [
            ("say whose privacy: .*found neither", ("--delta", 1e-5, *TWO)),
            ("say whose privacy: .*found both", (*CLIENTS, "--examples", 5, *TWO)),
            ("--subset goes with --examples", (*CLIENTS, "--subset", 5, *TWO)),
            ("--per-round goes with --clients", (*EXAMPLES, "--per-round", 5, *TWO)),
            ("--delta is needed", ("--clients", 5, *TWO)),
            ("--per-round .* from 1 to 5, found 6", ("--clients", 5, "--per-round", 6, "--delta", 0.1, *TWO)),
            ("--subset .* from 1 to 5, found 6", ("--examples", 5, "--subset", 6, "--delta", 0.1, *TWO)),
            ("--clients must be a whole number of at least 1, found 0", ("--clients", 0, "--delta", 0.1, *TWO)),
            ("--delta must be a number above 0 and below 1, found 1.0", ("--clients", 5, "--delta", 1, *TWO)),
            ("--delta must be a positive number, found 0.0", ("--clients", 5, "--delta", 0, *TWO)),
            ("--rounds must be a whole number of at least 1, found 0", (*CLIENTS, "--rounds", 0, "--noise", 1)),
            ("--noise must be a number of at least 0, found -1.0", (*CLIENTS, "--rounds", 1, "--noise", -1)),
            ("--epsilon must be a positive number, found 0.0", (*CLIENTS, "--rounds", 1, "--epsilon", 0)),
        ],
    )
    def test_bad_ones_are_told_in_one_line(self, message, arguments):
        result = hush(*arguments)
        assert result.exit_code == 2, result.output
        assert re.search(message, result.stderr), result.stderr
        assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == 1
        assert result.stdout == ""

    @pytest.mark.parametrize(
        ("found", "arguments"),
        [
            ("none", ()),
            ("--noise", ("--noise", 1)),
            ("--rounds and --noise and --epsilon", ("--noise", 1, "--rounds", 2, "--epsilon", 3)),
        ],
    )
    def test_two_of_three(self, found, arguments):
        result = hush(*CLIENTS, *arguments)
        assert result.exit_code == 2
        assert f"give two of --rounds, --noise and --epsilon, found {found}" in result.stderr

    def test_a_delta_that_allows_too_much_is_warned_of(self):
        result = hush("--clients", 100, "--delta", 0.01, "--rounds", 1, "--noise", 3, "--json")
        assert "warning: δ = 0.01 is not below 1/100" in result.stderr
        assert json.loads(result.stdout)["warning"].startswith("δ = 0.01")
        assert "warning" not in hush("--clients", 100, "--delta", 0.009, "--rounds", 1, "--noise", 3).stderr
        assert "giving away one example" in hush("--examples", 10, "--delta", 0.2, "--rounds", 1, "--noise", 3).stderr

    def test_help_teaches_by_example(self):
        lines = [line.strip() for line in fine("--help").splitlines() if line.strip().startswith("hush privacy --")]
        assert len(lines) == 4
        for line in lines:
            fine(*line.split()[2:])

    @pytest.mark.parametrize(
        ("value", "text"),
        [(1.4991, "1.5"), (1.23401, "1.235"), (0.000123449, "0.0001235"), (98765.4, "9.877e+04"), (3.0, "3")],
    )
    def test_numbers_are_rounded_to_the_safe_side(self, value, text):
        assert rounded_up(value, 4) == text
        assert float(text) >= value
