"""Compiled programs kept on disk: where, for whom, and that nothing but time depends on them."""

import errno
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush import compiled

EVENTS: Counter[str] = Counter()
jax.monitoring.register_event_listener(lambda name, **_: EVENTS.update([name.rsplit("/", 1)[-1]]))

SOURCES = Path(compiled.__file__).parents[1]
SETTINGS = ("jax_compilation_cache_dir", *compiled._KEEP_ALL)
ASKED = """
import os, sys, hush
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"), "jax" in sys.modules)
"""
TOLD = "import jax; print(jax.config.jax_compilation_cache_dir)"
RUN = """
import collections, jax, hush, numpy as np
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.rsplit("/", 1)[-1]]))
draws = np.random.default_rng(0)
problem = hush.tasks.quadratic(draws.normal(size=(4, 3, 2)), draws.normal(size=(4, 3)))
result = hush.run(hush.fedpaq(2, steps=2, lr=0.05, levels=2), problem, 3, progress=False)
print(events["cache_hits"], events["cache_misses"], result.vector.tobytes().hex())
"""


def process(program, **environment):
    """What a process of its own prints, with warnings as errors; it must end well and complain of nothing."""
    own = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name}
    asked = own | {"PYTHONPATH": str(SOURCES)} | environment
    command = [sys.executable, "-W", "error:::jax._src.compiler", "-W", "error:::hush", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=asked)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split(), ran.stderr


@pytest.fixture
def restored():
    """The settings of this process as they were."""
    settings = {name: jax.config.values[name] for name in SETTINGS}
    variables = {name.upper(): os.environ.get(name.upper()) for name in SETTINGS}
    yield
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    home = variables["JAX_COMPILATION_CACHE_DIR"]
    compiled.use_cache(False if home is None else Path(home).parent)
    for name, value in settings.items():
        jax.config.update(name, value)


def once(seed=0.0):
    """A program that this process has not seen: how often it was found on disk, how often written, and its answer."""
    before = Counter(EVENTS)
    answer = jax.jit(lambda x: jnp.sin(3 * x + seed).sum())(jnp.arange(5.0))
    found = EVENTS - before
    return found["cache_hits"], found["cache_misses"], float(answer)


def programs(folder):
    return sorted(path for path in folder.rglob("*-cache"))


def test_a_program_is_found_again(restored, tmp_path):
    folder = compiled.use_cache(tmp_path)
    assert folder == tmp_path / compiled.machine()
    jnp.arange(5.0)
    first, second = once(), once()
    assert (first[0], second[1]) == (0, 0)
    assert first[1] == second[0] > 0
    assert first[2] == second[2]
    assert len(programs(folder)) >= first[1]


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: data[:-9] + b"\0" + data[-8:]]
)
def test_a_damaged_program_is_compiled_again(restored, tmp_path, damage):
    folder = compiled.use_cache(tmp_path)
    expected = once()[2]
    for path in programs(folder):
        path.write_bytes(damage(path.read_bytes()))
    hits, _, answer = once()
    assert (hits, answer) == (0, expected)


def test_a_disk_that_fills_up(restored, tmp_path, monkeypatch):
    folder = compiled.use_cache(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    expected = once()[2]
    shutil.rmtree(folder)  # and a folder that is taken away meanwhile
    assert once()[2] == expected
    monkeypatch.setattr(Path, "write_bytes", full)
    assert once(1.0)[1:] != (0, expected)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    assert compiled.use_cache() is None


def test_off_and_on_again(restored, tmp_path):
    assert compiled.use_cache(False) is None
    assert jax.config.jax_compilation_cache_dir is None
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    assert once(2.0)[:2] == (0, 0)
    compiled.use_cache(tmp_path)
    assert once(2.0)[1] > 0
    with pytest.raises(ValueError, match="True, False or a folder, found 3"):
        compiled.use_cache(3)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(restored, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert compiled.use_cache(tmp_path / "file" / "inside") is None
    assert len(caplog.messages) == 1
    assert "cannot be written" in caplog.messages[0]
    assert once(3.0)[:2] == (0, 0)


def test_a_folder_that_others_can_write_is_not_used(restored, tmp_path, monkeypatch, caplog):
    """Who can put a program there would have this user run it."""
    folder = compiled.use_cache(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    for mode in (0o720, 0o702):
        folder.chmod(mode)
        assert compiled.use_cache(tmp_path) is None
    assert "others can write there" in caplog.messages[0]
    folder.chmod(0o755)
    assert compiled.use_cache(tmp_path) == folder
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert compiled.use_cache(tmp_path) is None


def test_the_oldest_go_first_and_the_old_go_anyway(tmp_path):
    now = time.time()
    for age, name in enumerate("abcde"):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (now, now - 100 * age))
    compiled.trim(tmp_path, most_bytes=350)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    compiled.trim(tmp_path, most_seconds=150)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    compiled.trim(tmp_path / "absent")


def test_programs_of_another_machine_or_jaxlib_lie_elsewhere(monkeypatch):
    here = compiled.machine()
    assert here == compiled.machine.__wrapped__()
    monkeypatch.setattr(compiled.metadata, "version", lambda _: "99.0")
    other = compiled.machine.__wrapped__()
    assert other.startswith("jaxlib-99.0-")
    assert other.split("-")[-1] == here.split("-")[-1]
    monkeypatch.setattr(compiled.platform, "machine", lambda: "another")
    assert compiled.machine.__wrapped__().split("-")[-1] != here.split("-")[-1]


def test_a_machine_that_does_not_say_what_its_processor_knows_is_one_of_its_own(monkeypatch, tmp_path):
    """Two Macs of different years: by `platform` alone they are the same."""
    names = iter(("one", "one", "other"))
    monkeypatch.setattr(compiled.platform, "node", lambda: next(names))
    monkeypatch.setattr(compiled, "CPU_FACTS", tmp_path / "absent")
    first, again, other = (compiled.machine.__wrapped__() for _ in range(3))
    assert first == again != other
    facts = tmp_path / "facts"
    found = []
    for said in ("flags : sse avx", "flags : avx sse", "flags : sse avx avx512f", "model name : unknown"):
        facts.write_text(f"processor : 0\n{said}\n")
        monkeypatch.setattr(compiled, "CPU_FACTS", facts)
        monkeypatch.setattr(compiled.platform, "node", lambda: "one")
        found.append(compiled.machine.__wrapped__())
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert found[3] == first


class TestTheEnvironment:
    def test_the_users_cache_folder(self, tmp_path):
        (asked, started, told), said = process(ASKED + TOLD, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
        assert asked == told
        assert Path(told).name == compiled.machine()
        assert Path(told).is_relative_to(tmp_path)
        assert (started, said) == ("False", "")

    def test_off_even_where_a_parent_had_it_on(self, tmp_path):
        inherited = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / compiled.machine())}
        assert process(ASKED, HUSH_COMPILATION_CACHE="off", **inherited) == (["None", "False"], "")

    def test_another_folder(self, tmp_path):
        assert process(ASKED, HUSH_COMPILATION_CACHE=str(tmp_path))[0][0] == str(tmp_path / compiled.machine())

    def test_the_users_own_words_to_jax_come_first(self, tmp_path):
        own = str(tmp_path / "own")
        assert process(ASKED, JAX_COMPILATION_CACHE_DIR=own, HUSH_COMPILATION_CACHE="off")[0][0] == own
        said_before = f"import jax\njax.config.update('jax_compilation_cache_dir', {own!r})\n" + ASKED + TOLD
        assert process(said_before, HUSH_COMPILATION_CACHE=str(tmp_path))[0] == ["None", "True", own]

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        nowhere = str(tmp_path / "file" / "inside")
        assert process(ASKED, HUSH_COMPILATION_CACHE=nowhere)[1].count("\n") == 1
        assert process(ASKED, HOME=nowhere, XDG_CACHE_HOME=nowhere) == (["None", "False"], "")


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_finds_the_same(tmp_path):
    """Cold, warm, and after every program was damaged: bit for bit the same."""
    where = {"HUSH_COMPILATION_CACHE": str(tmp_path)}
    (hits, misses, cold), said = process(RUN, **where)
    assert (int(misses) > 0, said) == (True, "")
    asked = str(int(hits) + int(misses))  # a program may be asked for twice, even the first time
    assert process(RUN, **where) == ([asked, "0", cold], "")
    for number, path in enumerate(programs(tmp_path)):
        data = np.frombuffer(path.read_bytes(), np.uint8).copy()
        data[number % data.size] ^= 255
        path.write_bytes(data.tobytes())
    assert process(RUN, **where) == (["0", asked, cold], "")


def test_on_a_gpu_the_fastest_kernels_are_kept_with_the_programs():
    """XLA looks for them as it compiles; JAX keeps what it found beside the programs, unless told otherwise."""
    assert "xla_gpu_per_fusion_autotune_cache_dir" in str(jax.config.jax_persistent_cache_enable_xla_caches)
