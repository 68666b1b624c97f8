"""The lab's rooms over the web: what they show, and what they refuse."""

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from starlette.testclient import TestClient

import wideproof as wp
from wideproof.errors import JobError
from wideproof.lab import archives, children, paper_room, proof_room, rooms, sweep_reader
from wideproof.lab.proof_room import describe
from wideproof.lab.server import Lab, make_app
from wideproof.proving.runs import prove_run
from wideproof.sweeps import sweep
from wideproof.sweeps.study import Study

HOST = "127.0.0.1:8000"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """A folder with one proof, made once."""
    folder = tmp_path_factory.mktemp("lab") / "proofs"
    data = wp.load("sphere:n=4,d=8,separation=0.8")
    network = wp.build("fully-connected", (8,), (), width=64, depth=1, activation="tanh")
    run = wp.train(network, data, wp.Recipe(steps=200))
    run.save(folder / "sphere" / "run")
    prove_run(run, folder / "sphere").save_report()
    return folder


@pytest.fixture
def lab(proofs, tmp_path, monkeypatch):
    shutil.copytree(proofs, tmp_path / "proofs")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(os.path.abspath, sys.path)))  # for processes in this folder
    monkeypatch.chdir(tmp_path)
    made = Lab(tmp_path / "proofs", {"127.0.0.1"}, 8000, "secret")
    yield made
    made.clear()


@pytest.fixture
def client(lab):
    with TestClient(make_app(lab), base_url=f"http://{HOST}", headers={"origin": f"http://{HOST}"}) as made:
        made.cookies.set(lab.cookie, "secret")
        yield made


def zipped(files: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", kind) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def certificate(lab: Lab) -> dict[str, bytes]:
    folder = lab.folder / "sphere" / "certificate"
    return {name: (folder / name).read_bytes() for name in ("certificate.json", "arrays.safetensors")}


ADDRESSES = [
    ("GET", "/rooms/proofs"), ("GET", "/rooms/proofs/sphere/report.html"), ("POST", "/rooms/proofs/sphere/verify"),
    ("POST", "/rooms/verify"), ("GET", "/rooms/papers"), ("GET", "/rooms/papers/zou2018.lemma_c_1"),
    ("POST", "/rooms/measure"), ("GET", "/rooms/sweeps"), ("GET", "/rooms/sweeps/here/x"),
    ("GET", "/rooms/sweeps/here/x/results"), ("GET", "/rooms/sweeps/here/x/0-dark.svg"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "address"), ADDRESSES)
def test_strangers_are_refused(lab, method, address):
    """Without the token, with a wrong one, under another name, from another page."""
    app, good = make_app(lab), {"origin": f"http://{HOST}", "cookie": f"{lab.cookie}=secret"}
    with TestClient(app, base_url=f"http://{HOST}") as client:
        for wrong in (
            {"cookie": ""}, {"cookie": f"{lab.cookie}=guess"}, {"host": "evil.example:8000"},
            {"origin": "http://evil.example"}, {"origin": "null"},
        ):  # fmt: skip
            answer = client.request(method, address, headers=good | wrong)
            assert answer.status_code == 403
            assert "sphere" not in answer.text


class TestProofs:
    def test_the_list_says_what_was_proved(self, client, lab):
        found = client.get("/rooms/proofs").json()
        (proof,) = found["proofs"]
        assert proof["outcome"] == "proved"
        assert proof["headline"].startswith("Proved: from the weights that")
        assert proof["network"] == "fully-connected, width 64, depth 1, tanh"
        assert (proof["data"], proof["n"]) == ("sphere:n=4,d=8,separation=0.8", 4)
        assert proof["bytes"] == sum(map(len, certificate(lab).values()))
        assert found["folder"] == str(lab.folder)

    def test_hostile_folders_do_not_break_it(self, client, lab, tmp_path):
        for name, files in {
            "broken": {"run/run.json": b"{", "report.html": b"\xff\xfe<main class=proved><h1>no"},
            "lists": {"run/run.json": b"[]", "choice.json": b"[1]", "certificate/certificate.json": b'"x"'},
            "kinds": {"run/run.json": b'{"network": [1], "data": "x"}', "report.html": b""},
            "deep": {"run/run.json": b"[" * 100_000},
            "numbers": {"run/run.json": b'{"network": {"network": {}, "width": [1]}, "data": {"n": "x", "name": 1}}'},
            "empty": {},
            SCRIPT.replace("/", ""): {"report.html": f"<main class=proved><h1>{SCRIPT}</h1>".encode()},
        }.items():
            for path, text in files.items():
                (lab.folder / name / path).parent.mkdir(parents=True, exist_ok=True)
                (lab.folder / name / path).write_bytes(text)
        (lab.folder / "huge" / "run").mkdir(parents=True)
        with (lab.folder / "huge" / "run" / "run.json").open("wb") as file:
            file.truncate(1 << 32)  # sparse
        (tmp_path / "outside").mkdir()
        shutil.copytree(lab.folder / "sphere", tmp_path / "outside" / "sphere")
        (lab.folder / "link").symlink_to(tmp_path / "outside" / "sphere")
        found = {one["name"]: one for one in client.get("/rooms/proofs").json()["proofs"]}
        assert found["sphere"]["outcome"] == "proved"
        assert not {"link", "huge", "empty", "deep", "lists"} & found.keys()
        assert found[SCRIPT.replace("/", "")]["outcome"] == "claimed"

    def test_no_folder_is_an_empty_list(self, client, lab):
        shutil.rmtree(lab.folder)
        assert client.get("/rooms/proofs").json()["proofs"] == []

    def test_the_report_can_run_nothing(self, client):
        answer = client.get("/rooms/proofs/sphere/report.html")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")

    def test_the_archive_is_the_certificate(self, client, lab):
        answer = client.get("/rooms/proofs/sphere/certificate.zip")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            found = {Path(name).name: archive.read(name) for name in archive.namelist()}
        assert found == certificate(lab)
        assert answer.headers["content-disposition"] == 'attachment; filename="sphere-certificate.zip"'

    def test_names_may_be_strange(self, client, lab):
        (lab.folder / "sphere").rename(lab.folder / 'β "x"; y')
        (proof,) = client.get("/rooms/proofs").json()["proofs"]
        answer = client.get(f"/rooms/proofs/{proof['name']}/certificate.zip")
        assert answer.headers["content-disposition"] == 'attachment; filename="_x_y-certificate.zip"'

    @pytest.mark.parametrize(
        "address",
        ["%2e%2e", "..%2f..", "%2e%2e%2foutside", "sphere%2f..%2f..", "nobody", "x" * 5000, "a%00b", "link"],
    )
    @pytest.mark.parametrize("file", ["report.html", "certificate.zip", "verify"])
    def test_nothing_outside_is_given(self, client, lab, tmp_path, address, file):
        (tmp_path / "report.html").write_text("secret words")
        (lab.folder / "link").symlink_to(tmp_path)
        answer = client.request("POST" if file == "verify" else "GET", f"/rooms/proofs/{address}/{file}")
        assert answer.status_code in (404, 405)
        assert "secret words" not in answer.text

    def test_links_inside_a_proof_are_not_followed(self, client, lab, tmp_path):
        (tmp_path / "private.txt").write_text("secret words")
        (lab.folder / "sphere" / "report.html").unlink()
        (lab.folder / "sphere" / "report.html").symlink_to(tmp_path / "private.txt")
        (lab.folder / "sphere" / "certificate" / "extra").symlink_to(tmp_path / "private.txt")
        assert client.get("/rooms/proofs/sphere/report.html").status_code == 404
        with zipfile.ZipFile(io.BytesIO(client.get("/rooms/proofs/sphere/certificate.zip").content)) as archive:
            assert len(archive.namelist()) == 2
        shutil.move(lab.folder / "sphere" / "certificate", tmp_path / "moved")
        (lab.folder / "sphere" / "certificate").symlink_to(tmp_path / "moved")
        assert client.get("/rooms/proofs/sphere/certificate.zip").status_code == 404
        assert client.post("/rooms/proofs/sphere/verify").status_code == 404

    def test_files_beside_the_report_are_not_given(self, client, lab):
        for name in ("choice.json", "run", "certificate", "stages.jsonl"):
            assert client.get(f"/rooms/proofs/sphere/{name}").status_code == 404

    def test_a_folder_without_report_claims_only(self, lab):
        (lab.folder / "sphere" / "report.html").unlink()
        about = describe(lab.folder, "sphere")
        assert about is not None
        assert about["outcome"] == "claimed"
        assert about["headline"].startswith("Claim: gradient descent")
        (lab.folder / "sphere" / "report.html").write_text('<main class="proved"><h1>Proved &amp; sure</h1></main>')
        (lab.folder / "sphere" / "certificate" / "arrays.safetensors").unlink()
        about = describe(lab.folder, "sphere")
        assert about is not None
        assert (about["outcome"], about["headline"], about["bytes"]) == ("claimed", "Proved & sure", None)
        (lab.folder / "sphere" / "report.html").unlink()
        shutil.rmtree(lab.folder / "sphere" / "certificate")
        about = describe(lab.folder, "sphere")
        assert about is not None
        assert about["outcome"] == "unfinished"


class TestVerifying:
    def test_a_kept_certificate(self, client):
        found = client.post("/rooms/proofs/sphere/verify").json()
        assert found["answer"] == "proved"
        assert "converges to zero loss" in found["statement"]
        assert found["checks"]
        assert found["seconds"] > 0

    def test_an_archive_and_two_files(self, client, lab):
        files = certificate(lab)
        packed = client.post("/rooms/verify", content=zipped({f"mine/{n}": t for n, t in files.items()}))
        document, arrays = files.values()
        joined = client.post(f"/rooms/verify?document={len(document)}", content=document + arrays)
        for answer in (packed, joined):
            assert answer.json()["answer"] == "proved"
        assert not list(lab.work.glob("brought-*"))

    def test_what_is_false_fails_and_what_is_damaged_is_malformed(self, client, lab):
        files = certificate(lab)
        document = json.loads(files["certificate.json"])
        document["claims"]["rho"] = 0.5 * document["claims"]["rho"]
        cut = files | {"arrays.safetensors": files["arrays.safetensors"][:-40]}
        for changed in (cut, files | {"certificate.json": json.dumps(document).encode()}):
            found = client.post("/rooms/verify", content=zipped(changed)).json()
            assert found["answer"] in ("malformed", "not proved")
            assert found["reason"]
            assert found["statement"] == ""

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (lambda f: {"certificate.json": f["certificate.json"]}, "arrays.safetensors is missing"),
            (lambda f: {f"../{name}": text for name, text in f.items()}, "outside itself"),
            (lambda f: {f"/etc/{name}": text for name, text in f.items()}, "outside itself"),
            (lambda f: {**f, "..\\x": b""}, "outside itself"),
            (lambda f: {**f, "a/certificate.json": b"{}"}, "more than once"),
            (lambda f: {**f, **{f"{k}": b"" for k in range(1100)}}, "1102 files"),
            (lambda f: {SCRIPT: b""}, "certificate.json is missing"),
        ],
    )
    def test_hostile_archives_are_refused(self, client, lab, change, sentence):
        answer = client.post("/rooms/verify", content=zipped(change(certificate(lab))))
        assert answer.status_code == 422
        assert sentence in answer.json()["error"]
        assert not list(lab.work.glob("brought-*"))

    def test_broken_archives_are_refused(self, client, lab):
        whole = zipped(certificate(lab))
        flipped = bytearray(whole)
        flipped[200] ^= 0xFF
        for content in (b"", b"PK", whole[: len(whole) // 2], whole[:-4], b"PK\x03\x04" + b"\0" * 100, bytes(flipped)):
            answer = client.post("/rooms/verify", content=content)
            assert answer.status_code == 422
            assert "cannot be read" in answer.json()["error"]
        answer = client.post("/rooms/verify", content=zipped(certificate(lab), zipfile.ZIP_LZMA))
        assert "pack it with deflate" in answer.json()["error"]

    def test_a_bomb_is_not_unpacked(self, client, lab, monkeypatch):
        monkeypatch.setattr(archives, "MOST", 1 << 20)
        bomb = {"certificate.json": b"{}", "arrays.safetensors": b"\0" * (8 << 20)}
        answer = client.post("/rooms/verify", content=zipped(bomb))
        assert answer.status_code == 422
        assert "at most 1 MB" in answer.json()["error"]
        # The same one, which says that it holds ten bytes.
        content = bytearray(zipped(bomb))
        size, check = struct.pack("<I", 8 << 20), struct.pack("<I", zlib.crc32(bomb["arrays.safetensors"]))
        assert content.count(check) == 2
        content = bytes(content).replace(size, struct.pack("<I", 10))
        answer = client.post("/rooms/verify", content=content)
        assert answer.status_code == 422
        assert not list(lab.work.glob("brought-*"))

    def test_too_much_is_refused(self, client, monkeypatch):
        monkeypatch.setattr(archives, "MOST", 1000)
        answer = client.post("/rooms/verify", content=b"x" * 1001)
        assert answer.status_code == 413
        parts = (b"x" * 400 for _ in range(4))  # without a length
        assert client.post("/rooms/verify", content=parts).status_code == 413

    @pytest.mark.parametrize("size", ["-1", "x", "99999", "²", "1" * 40, ""])
    def test_a_wrong_length_is_refused(self, client, size):
        assert client.post("/rooms/verify", params={"document": size}, content=b"{}").status_code == 422

    def test_one_too_many_is_told_to_wait(self, client, lab):
        places = children.Places(1, "verifications are")
        with places.one(), pytest.raises(children.BusyError, match="1 verifications are at work already"), places.one():
            pass
        with places.one():
            assert places.taken == 1

    def test_a_verification_that_takes_too_long_is_stopped(self, client, monkeypatch):
        monkeypatch.setattr(proof_room, "PATIENCE", 0.01)
        answer = client.post("/rooms/proofs/sphere/verify")
        assert answer.status_code == 500
        assert re.search(r"not verified: it was stopped after", answer.json()["error"])


class TestPapers:
    def test_all_statements_with_their_formulas(self, client):
        found = client.get("/rooms/papers").json()
        rows = {row["name"]: row for row in found["statements"]}
        assert len(rows) == 345
        assert sum(row["checkable"] for row in rows.values()) == 320
        one = rows["zou2018.theorem_5_1_iii"]
        assert one["spoken"] == "Theorem 5.1(iii)"
        assert any("<msqrt>" in piece.get("math", "") for piece in one["says"])
        text = json.dumps(found, ensure_ascii=False)
        assert not re.search(r"\\\\[a-zA-Z|{}]", text), "TeX is left over"
        assert "<script" not in text

    def test_what_is_stored_is_what_the_documentation_says(self, client):
        rows = {row["name"]: row for row in client.get("/rooms/papers").json()["statements"]}
        documented = (Path(__file__).parents[2] / "docs" / "theory" / "statements.md").read_text(encoding="utf-8")
        of_all = [(row["name"], row["outcome"]) for row in rows.values() if row["checkable"]]
        assert None not in dict(of_all).values()
        counted = [sum(outcome == kind for _, outcome in of_all) for kind in ("holds", "fails", "undecided")]
        said = re.search(r"^\| 0 \| (\d+) \| (\d+) \| (\d+) \|", documented, re.MULTILINE)  # seed 0
        assert said is not None
        assert counted == [int(number) for number in said.groups()]

    def test_one_statement(self, client):
        found = client.get("/rooms/papers/zou2018.lemma_a_12").json()
        assert found["outcome"] == "fails"
        assert found["why"].startswith("false as printed")
        assert found["found"]["numbers"]

    @pytest.mark.parametrize("name", ["zou2018.nothing", "..", "%2e%2e", "zou2018", SCRIPT])
    def test_no_such_statement(self, client, name):
        assert client.get(f"/rooms/papers/{name}").status_code == 404

    def test_measuring(self, client):
        asked = {"names": ["zou2018.lemma_c_1"], "study": "quick", "seed": 1}
        answer = client.post("/rooms/measure", content=json.dumps(asked))
        lines = [json.loads(line) for line in answer.text.splitlines()]
        (found,) = [line for line in lines if line["state"] == "found"]
        assert found["name"] == "zou2018.lemma_c_1"
        assert found["found"]["outcome"] == "holds"
        assert lines[-1]["state"] == "ended"

    @pytest.mark.parametrize(
        "asked",
        [
            b"", b"[]", b"{}", b"[" * 60_000, b"x" * 100_000, b'{"study": "quick", "seed": 0, "names": []}',
            b'{"study": "quick", "seed": 0, "names": ["--help"]}', b'{"study": "quick", "seed": 0, "names": "zou2018"}',
            b'{"study": "quick", "seed": 0, "names": ["zou2018.eq_3_1"]}',
            b'{"study": "endless", "seed": 0, "names": ["zou2018.lemma_c_1"]}',
            b'{"study": ["quick"], "seed": 0, "names": ["zou2018.lemma_c_1"]}',
            b'{"study": "quick", "seed": -1, "names": ["zou2018.lemma_c_1"]}',
            b'{"study": "quick", "seed": true, "names": ["zou2018.lemma_c_1"]}',
            b'{"study": "quick", "seed": 0, "names": ["zou2018.lemma_c_1", "zou2018.lemma_c_1"]}',
            b'{"study": "quick", "seed": 0, "names": [["zou2018.lemma_c_1"]]}',
        ],
    )  # fmt: skip
    def test_what_cannot_be_measured(self, client, asked):
        answer = client.post("/rooms/measure", content=asked)
        assert answer.status_code == 422
        assert answer.json()["error"]


@pytest.fixture
def swept(tmp_path):
    study = Study.model_validate({
        "name": "tiny", "title": f"how far it moves {SCRIPT}", "measures": ["distance", "reached"],
        "data": {"source": "sphere", "n": 4, "d": 4, "separation": 0.3},
        "network": {"name": "fully-connected", "depth": 1}, "training": {"steps": 3},
        "axes": {"width": [4, 8], "n": [2, 3], "seed": 1},
        "figures": [{"kind": "slope", "quantity": "distance", "x": "width", "printed": -0.5, "title": SCRIPT},
                    {"kind": "phase", "quantity": "reached", "x": "width", "y": "n"}],
    })  # fmt: skip
    return sweep(study, tmp_path / "tiny")


class TestSweeps:
    def test_the_list_and_one(self, client, swept, lab):
        sweep(swept.study.model_copy(update={"name": "other"}), lab.folder / "beside")
        found = {one["study"]: one for one in client.get("/rooms/sweeps").json()["sweeps"]}
        assert {name: one["root"] for name, one in found.items()} == {"tiny": "here", "other": "proofs"}
        one = client.get("/rooms/sweeps/here/tiny").json()
        assert (one["state"], one["done"], one["failed"], one["total"]) == ("done", 4, 0, 4)
        assert one["axes"] == ["width: 4, 8", "n: 2, 3", "seed: 1"]

    @pytest.mark.slow  # five seconds; the list and one study are above
    def test_figures_and_exponents(self, client, swept):
        found = client.get("/rooms/sweeps/here/tiny/results").json()
        slope = found["figures"][0]
        assert slope["exponents"][0]["predicted"] == "-0.5"
        assert np.isfinite(slope["exponents"][0]["value"])
        assert [row[0] for row in found["measures"]] == ["distance", "reached"]
        for k in range(len(found["figures"])):
            for theme in ("light", "dark"):
                answer = client.get(f"/rooms/sweeps/here/tiny/{k}-{theme}.svg")
                assert answer.headers["content-type"] == "image/svg+xml"
                assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
                assert b"<script" not in answer.content
        assert client.get("/rooms/sweeps/here/tiny/results").json() == found

    def test_one_that_runs_and_one_that_was_killed(self, client, swept):
        path = swept.folder / "progress.json"
        noted = json.loads(path.read_text())
        assert noted["ended"] is True
        next((swept.folder / "tasks").iterdir()).unlink()
        path.write_text(json.dumps({**noted, "ended": False, "pid": os.getpid(), "failed": 1, "errors": [SCRIPT]}))
        one = client.get("/rooms/sweeps/here/tiny").json()
        assert (one["state"], one["done"], one["failed"], one["errors"]) == ("running", 3, 1, [SCRIPT])
        for pid in (2**22 + 1, "1", -1, 10**30, True, None):
            path.write_text(json.dumps({**noted, "ended": False, "pid": pid, "failed": 0}))
            assert client.get("/rooms/sweeps/here/tiny").json()["state"] == "unfinished"

    def test_hostile_folders_do_not_break_the_list(self, client, swept, tmp_path):
        for name, about in {
            "broken": "{", "list": "[]", "deep": "[" * 100_000, "nameless": "{}",
            "kinds": '{"name": ["x"], "study": {"axes": {"a": {}, "b": "c"}, "title": 3}}', "text": '{"study": "x"}',
            "large": '{"name": "large", "study": {"axes": {"a": 99999999999999999999}}}',
        }.items():  # fmt: skip
            (tmp_path / name).mkdir()
            (tmp_path / name / "study.json").write_text(about)
            (tmp_path / name / "progress.json").write_text("[]" if name != "kinds" else '{"errors": 3, "total": "x"}')
            (tmp_path / name / "results.zarr").mkdir()
        names = {one["name"] for one in client.get("/rooms/sweeps").json()["sweeps"]}
        assert names == {"tiny", "kinds", "large"}
        for name in ("broken", "list", "deep", "nameless", "kinds", "text", "large"):
            with pytest.raises(wp.InputError):
                sweep_reader.read(tmp_path / name, tmp_path)

    @pytest.mark.parametrize("damage", ["bytes", "missing", "other axes"])
    def test_results_that_are_damaged(self, swept, tmp_path, damage):
        about = json.loads((swept.folder / "study.json").read_text())
        about["study"]["figures"][0]["x"] = "depth" if damage == "other axes" else "width"
        (swept.folder / "study.json").write_text(json.dumps(about))
        for path in (swept.folder / "results.zarr").rglob("*"):
            if path.is_file() and damage == "bytes":
                path.write_bytes(b"x")
        if damage == "missing":
            shutil.rmtree(swept.folder / "results.zarr")
        with pytest.raises(wp.InputError, match="cannot be read"):
            sweep_reader.read(swept.folder, tmp_path)

    def test_a_process_that_draws_nothing_is_a_sentence(self, client, swept):
        (swept.folder / "study.json").write_text('{"name": "unknown"}')
        answer = client.get("/rooms/sweeps/here/tiny/results")
        assert answer.status_code == 422
        assert "does not say what was swept" in answer.json()["error"]

    @pytest.mark.parametrize(
        "address",
        [
            "here/%2e%2e", "elsewhere/tiny", "here/link", "here/nobody/results", "here/tiny/study.json",
            "here/tiny/..%2fstudy.json", "here/tiny/0-dark.svg", "here/tiny/9999-dark.svg", "here/tiny/report.html",
        ],
    )  # fmt: skip
    def test_nothing_else_is_given(self, client, swept, tmp_path_factory, tmp_path, address):
        other = tmp_path_factory.mktemp("other")
        (other / "study.json").write_text('{"name": "x"}')
        (tmp_path / "link").symlink_to(other)
        assert client.get(f"/rooms/sweeps/{address}").status_code == 404


def test_names_are_inside_or_nowhere(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert rooms.inside(tmp_path, "a") == tmp_path / "a"
    for name in ("", ".", "..", "a/../..", "/etc", "c", "x" * 10_000, "a\0b"):
        assert rooms.inside(tmp_path, name) is None


def test_static_files_of_the_rooms_are_given(client):
    for name in ("rooms", "parts", "proofs", "papers", "sweeps", "chart"):
        answer = client.get(f"/static/{name}.js")
        assert answer.status_code == 200
        assert "innerHTML" not in answer.text
        assert not re.search(r"https?://(?!www\.w3\.org/)", answer.text)


class TestChildren:
    """Processes end with what they work for."""

    def gone(self, pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    def test_whoever_leaves_ends_the_process(self):
        class Leaving:
            async def receive(self):
                await asyncio.sleep(0.3)
                return {"type": "http.disconnect"}

        with pytest.raises(JobError, match="no longer needed"):
            asyncio.run(children.output_of(cast("Any", Leaving()), 60, "http.server", "0", "--bind", "127.0.0.1"))

    def test_nothing_is_left_at_the_end(self):
        async def run() -> int:
            async with children.child("http.server", "0", "--bind", "127.0.0.1") as process:
                assert not self.gone(process.pid)
                return process.pid

        assert self.gone(asyncio.run(run()))

    def test_a_measurement_that_is_given_up_ends(self, monkeypatch):
        started = []
        real = children.child

        @contextlib.asynccontextmanager
        async def seen(*arguments):
            async with real(*arguments) as process:
                started.append(process.pid)
                yield process

        monkeypatch.setattr(paper_room, "child", seen)
        monkeypatch.setattr(paper_room, "BEAT", 0.05)

        async def run():
            lines = paper_room.measured("quick", 0, ["zou2018.lemma_c_1"])
            assert (await anext(lines))["state"] == "at work"
            await lines.aclose()

        asyncio.run(run())
        assert self.gone(started[0])
