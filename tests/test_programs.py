"""Compiled programs kept on disk: the same bits with and without, within their limit, mended, and easy to be rid of."""

import json
import os
import subprocess
import sys
import textwrap
import time
import zlib

import pytest

from tests.cli.conftest import cli as cli
from wideproof import programs
from wideproof.errors import InputError

TRAIN = """
    import hashlib, json, sys
    from wideproof.programs import keep
    keep(sys.argv[1])
    import jax
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    import wideproof as wp
    data = wp.load("sphere:n=6,d=3,separation=0.3", seed=0)
    run = wp.train(wp.build("fully-connected", (3,), (), width=8, depth=1), data, wp.Recipe(steps=50))
    bits = hashlib.sha256(b"".join(run.params[k].tobytes() for k in sorted(run.params))).hexdigest()
    hits, misses = (events.count(f"/jax/compilation_cache/cache_{what}") for what in ("hits", "misses"))
    print(json.dumps({"bits": bits, "loss": run.loss.hex(), "hits": hits, "misses": misses}))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An environment in which nothing is said, and JAX, which other tests share, is told nothing."""
    for name in (programs.PLACE, programs.SIZE, programs.FOLDER.upper(), programs.ENABLED, programs.LEAST.upper()):
        monkeypatch.setenv(name, "")  # put back after the test, whatever `keep` does
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONWARNINGS", programs.SILENT)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    told = {}
    monkeypatch.setattr(programs, "_tell_jax", told.__setitem__)
    monkeypatch.setattr(programs.atexit, "register", lambda *_: None)
    return told


def entry(folder, name, content=b"a program", age=1000.0, compress=zlib.compress):
    """Write an entry as JAX does, so many seconds old."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-cache"
    path.write_bytes(compress(content))
    older(path, age)
    return path


def older(path, age):
    then = time.time() - age
    os.utime(path, (then, then))


@pytest.mark.slow  # three processes of their own
def test_the_same_bits_with_and_without(tmp_path):
    dropped = (programs.PLACE, programs.FOLDER.upper(), programs.LEAST.upper())
    environment = {name: value for name, value in os.environ.items() if name not in dropped}

    def run(where):
        command = [sys.executable, "-c", textwrap.dedent(TRAIN), str(where)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    without, first, again = run("off"), run(tmp_path / "kept"), run(tmp_path / "kept")
    assert without["bits"] == first["bits"] == again["bits"]
    assert without["loss"] == first["loss"] == again["loss"]
    assert (without["hits"], without["misses"]) == (0, 0)
    assert first["misses"] > 5
    assert (again["hits"], again["misses"]) == (first["hits"] + first["misses"], 0)


def test_the_user_s_cache_folder(own, tmp_path):
    folder = programs.keep()
    assert folder is not None
    assert folder.parent == tmp_path / "home" / "wideproof"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == own[programs.FOLDER] == str(folder)
    entry(folder, "one")
    kept = programs.kept()
    assert (kept.folder, kept.programs, kept.most) == (folder.parent, 1, programs.MOST)
    assert programs.keep() == folder  # what this process set, a child finds


def test_another_processor_has_another_folder(own, tmp_path, monkeypatch):
    known = []
    for flags in ("sse avx2", "sse avx2 avx512f", "sse avx2"):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nmodel name : CPU\nflags : {flags}\ncpu MHz : {len(known)}\n")
        monkeypatch.setattr(programs, "CPUINFO", tmp_path / "cpuinfo")
        known.append(programs.keep(tmp_path / "shared"))
    assert known[0] == known[2] != known[1]


@pytest.mark.parametrize("how", ["option", "variable", "unwritable", "homeless"])
def test_off(own, tmp_path, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv(programs.PLACE, "off")
    if how == "unwritable":
        (tmp_path / "home").write_text("a file where the folder should be")
    if how == "homeless":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(programs.Path, "expanduser", lambda self: (_ for _ in ()).throw(RuntimeError("no home")))
    assert programs.keep("off" if how == "option" else None) is None
    assert programs.FOLDER not in own
    assert programs.FOLDER.upper() not in os.environ
    assert (programs.kept().folder is None) == (how != "unwritable")


def test_a_folder_given_to_jax_is_respected(own, tmp_path, monkeypatch, cli):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    path = entry(tmp_path / "jax", "one")
    assert programs.keep() == tmp_path / "jax"
    assert own == {}
    assert programs.kept().most is None
    with pytest.raises(InputError, match="remove it yourself"):
        programs.clear()
    assert cli("cache", "--clear").code == 2
    assert path.exists()


def test_what_was_used_longest_ago_goes_first(tmp_path):
    paths = [entry(tmp_path / f"programs-{k % 2}", str(k), bytes([k]) * 8, age=100 + 10 * k) for k in range(6)]
    size = paths[0].stat().st_size
    os.utime(paths[5], (time.time(), paths[5].stat().st_mtime))  # written first, but used just now
    programs.tidy(tmp_path, 3 * size)
    assert [path.exists() for path in paths] == [True, True, False, False, False, True]


def test_a_torn_program_is_removed_and_whole_ones_stay(tmp_path):
    whole, torn = entry(tmp_path, "whole"), entry(tmp_path, "torn", compress=lambda b: zlib.compress(b)[:-5])
    empty, young = entry(tmp_path, "empty", compress=lambda _: b""), entry(tmp_path, "young", age=1, compress=bytes)
    programs.tidy(tmp_path, programs.MOST)
    assert [path.exists() for path in (whole, torn, empty, young)] == [True, False, False, True]
    whole.write_bytes(b"torn, but looked at before")
    older(whole, 1000)
    programs.tidy(tmp_path, programs.MOST)
    assert whole.exists()


def test_the_command(own, tmp_path, cli):
    where = tmp_path / "elsewhere"
    path = entry(where / "programs-of-another-machine", "one", b"12345")
    mine = where / "mine.txt"
    mine.write_text("not a program")
    assert cli("--cache", where, "cache").out == f"compiled programs: {programs.kept()}\n"
    os.environ[programs.PLACE] = str(where)
    del os.environ[programs.FOLDER.upper()]
    assert json.loads(cli("cache", "--json").out)["bytes"] == path.stat().st_size
    assert cli("cache", "--clear").code == 0
    assert not path.exists()
    assert mine.exists()
    assert json.loads(cli("cache", "--json").out)["programs"] == 0


def test_a_size_that_is_none(own, monkeypatch, cli):
    monkeypatch.setenv(programs.SIZE, "much")
    answer = cli("cache")
    assert answer.code == 2
    assert "WIDEPROOF_CACHE_SIZE must be a number of bytes, as in 500MB" in answer.err
