"""The lab's server seen from outside: who may enter, what is refused, and that nothing is left behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.lab.tools import PATIENCE, TINY, alive, command_of, descendants, serving, until
from wideproof.lab.server import MOST_TABS, MOST_UPLOAD

pytestmark = [
    pytest.mark.xdist_group("lab"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc"),
]


class TestGuard:
    @pytest.mark.parametrize("path", ["/", "/static/page.js", "/tabs/0123456789abcdef/a/report.html"])
    @pytest.mark.parametrize("cookie", [None, "wideproof-lab-1=x", "wrong", "own=1; "])
    def test_nobody_enters_without_the_token(self, lab, path, cookie):
        cookie = f"wideproof-lab-{lab.port}=wrong" if cookie == "wrong" else cookie
        answer = lab.get(path, Cookie=cookie)
        assert answer.code == 403
        assert answer.text.count("\n") == 1
        assert "needs a token" in answer.text
        assert lab.token not in answer.text
        assert "set-cookie" not in answer.headers

    def test_a_wrong_token_in_the_address(self, lab):
        assert lab.get("/?token=wrong", Cookie=None).code == 403
        assert lab.get(f"/static/page.js?token={lab.token}", Cookie=None).code == 403

    def test_the_token_goes_from_the_address_into_a_cookie(self, lab):
        answer = lab.get(f"/?token={lab.token}", Cookie=None, Origin=None)
        assert answer.code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "domain" not in cookie
        kept = answer.headers["set-cookie"].partition(";")[0]
        page = lab.get("/", Cookie=f"other=1; {kept}")
        assert page.code == 200
        assert lab.token not in page.text

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", None, "own-https", "own-other-port"])
    def test_other_pages_change_nothing(self, lab, origin):
        own = {"own-https": f"https://{lab.host}", "own-other-port": "http://127.0.0.1:1"}
        answer = lab.request("POST", "/upload?name=a.csv", b"a,b\n1,2\n", Origin=own.get(origin, origin))
        assert answer.code == 403
        assert "own pages only" in answer.text

    def test_a_foreign_page_reads_nothing_either(self, lab):
        assert lab.get("/", Origin="http://evil.example").code == 403
        assert "access-control-allow-origin" not in lab.get("/").headers

    @pytest.mark.parametrize("how", [{"origin": "http://evil.example"}, {"origin": None}, {"cookie": None}])
    def test_the_socket_is_as_careful(self, lab, how):
        with pytest.raises(InvalidStatus) as refused:
            lab.tab(**how)
        assert refused.value.response.status_code == 403

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "192.168.1.1:{port}", ""])
    def test_another_name_is_refused(self, lab, host):
        host = host.format(port=lab.port)
        answer = lab.get(f"/?token={lab.token}", Host=host, Origin=None)
        assert answer.code in (400, 403)
        assert lab.token not in answer.text
        assert answer.code == 400 or "its own name only" in answer.text

    def test_its_own_names(self, lab):
        for name in ("127.0.0.1", "localhost", "[::1]"):
            host = f"{name}:{lab.port}"
            assert lab.get("/", Host=host, Origin=f"http://{host}").code == 200

    def test_what_a_browser_is_told(self, lab):
        for path in ("/", "/static/page.js"):
            headers = lab.get(path).headers
            assert "default-src 'self'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


TAB = "/tabs/0123456789abcdef"
OUTSIDE = [
    "/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/static/%2e%2e%2fserver.py",
    "/static/..%5cserver.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/a%00.js",
    "/static/" + "a" * 4000, "/tabs/../../etc/passwd", "/tabs/..%2f..%2fetc%2fpasswd", "/tabs/../uploads/report.html",
    "/tabs/%2e%2e/uploads/report.html", f"{TAB}/../report.html", f"{TAB}/%2e%2e/report.html",
    "/tabs/a%00b/c/report.html", f"{TAB}/a%00b/report.html", "/tabs/" + "a" * 4000 + "/b/report.html",
    f"{TAB}/" + "b" * 4000 + "/report.html", f"{TAB}/a/..%2f..%2fsecret",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_outside(lab, path):
    answer = lab.get(path)
    assert answer.code in (404, 405), answer
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


class TestUploads:
    def test_a_table(self, lab):
        answer = lab.request("POST", "/upload?name=..%2f..%2fmy%20data.csv", b"<script>,b\n1,2\n3,4\n")
        assert answer.code == 200, answer
        assert answer.headers["content-type"] == "application/json"
        found = json.loads(answer.text)
        assert found["columns"] == ["<script>", "b"]
        assert found["name"] == "my_data"
        (place,) = lab.temp.glob(f"*/uploads/{found['id']}*")
        assert place.name == f"{found['id']}-my_data.csv"

    @pytest.mark.parametrize("name", ["a.exe", "a.html", "a.csv.html", "a", "", "a.npz", "a.CSV%00.exe"])
    def test_other_kinds(self, lab, name):
        answer = lab.request("POST", f"/upload?name={name}", b"a,b\n1,2\n")
        assert answer.code == 415
        assert "a table is one of" in json.loads(answer.text)["error"]

    @pytest.mark.parametrize("content", [b"", b"\0\1\2" * 100, b"\xff\xfe\x00a", b'"unclosed', b"a\n" * 3])
    def test_what_is_no_table_gets_a_sentence(self, lab, content):
        answer = lab.request("POST", "/upload?name=a.csv", content)
        assert answer.code in (200, 422)
        if answer.code == 422:
            assert json.loads(answer.text)["error"].count("\n") == 0

    def test_too_large_by_its_own_word(self, lab):
        with socket.create_connection(("127.0.0.1", lab.port), timeout=PATIENCE) as line:
            line.sendall(self.head(lab, f"Content-Length: {2 << 30}"))
            answer = line.recv(65536).decode()
        assert answer.startswith("HTTP/1.1 413")
        assert not self.left(lab, "large")

    def test_too_large_without_a_word(self, lab):
        part = b"x" * (1 << 20)
        with socket.create_connection(("127.0.0.1", lab.port), timeout=PATIENCE) as line:
            line.sendall(self.head(lab, "Transfer-Encoding: chunked"))
            with contextlib.suppress(ConnectionError):  # it may hang up before it has been sent all
                for _ in range((MOST_UPLOAD >> 20) + 4):
                    line.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            with contextlib.suppress(ConnectionError):
                assert line.recv(65536).decode().startswith("HTTP/1.1 413")
        until(lambda: not self.left(lab, "large"), "the file is removed")
        assert lab.get("/").code == 200

    def test_one_that_breaks_off(self, lab):
        with socket.create_connection(("127.0.0.1", lab.port), timeout=PATIENCE) as line:
            line.sendall(self.head(lab, "Content-Length: 1000") + b"a,b\n")
            until(lambda: self.left(lab, "large"), "it begins to be written")
        until(lambda: not self.left(lab, "large"), "the file is removed")

    @staticmethod
    def head(lab, more):
        lines = ["POST /upload?name=large.csv HTTP/1.1", f"Host: {lab.host}", f"Origin: http://{lab.host}",
                 f"Cookie: {lab.cookie}", more, "", ""]  # fmt: skip
        return "\r\n".join(lines).encode()

    @staticmethod
    def left(lab, name):
        return list(lab.temp.glob(f"*/uploads/*{name}*"))


@pytest.fixture(scope="module")
def tab(lab):
    with lab.tab() as tab:
        tab.hear("hello")
        yield tab


class TestSocket:
    @pytest.mark.parametrize(
        "message",
        [
            "", "no JSON", "[]", "3", "null", '"run"', "{", b"\0\1\2", b"{}", '{"do": 1e9999999', "\ud7ff" * 10,
            "[" * 50_000, '{"do":' * 20_000 + "1" + "}" * 20_000, "9" * 100_000, '{"do": "' + "x" * 200_000 + '"}',
        ],
        ids=lambda message: repr(message)[:20],
    )  # fmt: skip
    def test_what_is_no_command_is_answered_and_the_tab_goes_on(self, tab, message):
        tab.socket.send(message)
        assert tab.hear("error")["text"] == "this message was no command: ignored"
        tab.send(do="nothing that is known")
        assert "does not know" in tab.hear("error")["text"]

    @pytest.mark.parametrize(
        "command",
        [
            {}, {"do": "fly"}, {"do": ["run"]}, {"do": "steer", "lane": "x"}, {"do": "pace", "pace": float("nan")},
            {"do": "step", "steps": float("inf")}, {"do": "configure", "settings": {"networks": [{"width": 1e300}]}},
        ],
    )  # fmt: skip
    def test_a_command_that_cannot_be_gets_a_sentence(self, tab, command):
        tab.send(**command)
        text = tab.hear("error")["text"]
        assert 0 < len(text) < 400
        assert "\n" not in text

    def test_nesting_that_JSON_reads_and_nobody_else(self, tab):
        nested = "[" * 900 + "]" * 900
        tab.socket.send('{"do": "configure", "settings": {"data": {"name": ' + nested + "}}}")
        assert tab.hear("error")["text"]
        tab.send(do="pause")
        tab.hear("paused")

    def test_one_that_is_huge_ends_its_own_socket_only(self, lab, tab):
        with lab.tab() as other:
            other.hear("hello")
            with contextlib.suppress(ConnectionClosed):
                other.socket.send("x" * (4 << 20))
            with pytest.raises(ConnectionClosed) as closed:
                other.hear("never")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        tab.send(do="pause")
        tab.hear("paused")


def prover_of(server):
    return [pid for pid in server.workers() if "wideproof.lab.prover" in command_of(pid)]


def workers_of(server):
    return [pid for pid in server.workers() if "wideproof.lab.worker" in command_of(pid)]


def begin_proof(server, tab):
    """Have a worker train and a prover at work."""
    tab.send(do="configure", settings=TINY)
    tab.hear("ready")
    tab.send(do="step", steps=3)
    tab.hear("points")
    tab.send(do="prove", lane=0)
    tab.hear("proof")
    return until(lambda: prover_of(server), "a prover starts")


class TestProcesses:
    def test_at_most_so_many_tabs(self, lab, tab):
        server = lab
        with contextlib.ExitStack() as open_tabs:
            tabs = [open_tabs.enter_context(server.tab()) for _ in range(50)]
            heard, refused = [], []
            for tab in tabs:
                try:
                    heard.append(tab.hear("tab")["tab"])
                except ConnectionClosed as closed:
                    refused.append(closed.rcvd)
            assert len(set(heard)) == MOST_TABS - 1  # one has been open all the time
            assert len(refused) == 50 - len(heard)
            assert {(end.code, end.reason) for end in refused if end} == {
                (1013, f"{MOST_TABS} tabs are open already: close one of them")
            }
            assert len(workers_of(server)) <= MOST_TABS
            open_tabs.close()
            until(lambda: len(workers_of(server)) <= 2, "the workers of closed tabs end; one may wait for the next")
            with server.tab() as again:
                again.hear("tab")

    @pytest.mark.slow  # the page says so in test_browser
    def test_a_lost_worker_is_said_and_replaced(self, lab):
        server = lab
        with server.tab() as tab:
            first = tab.hear("tab")["tab"]
            tab.hear("hello")
            provers = begin_proof(server, tab)
            (worker,) = [pid for pid in workers_of(server) if first in command_of(pid)]
            os.kill(worker, signal.SIGKILL)
            said = tab.hear("lost")["text"]
            assert "killed by SIGKILL" in said
            assert "a new one has been started" in said
            assert tab.hear("tab")["tab"] != first
            tab.hear("hello")
            until(lambda: not any(map(alive, provers)), "its prover ends with it")
            tab.send(do="configure", settings=TINY)
            tab.hear("ready")

    def test_a_closed_tab_leaves_no_process(self, lab):
        with lab.tab() as tab:
            name = tab.hear("tab")["tab"]
            provers = begin_proof(lab, tab)
            own = [pid for pid in workers_of(lab) if name in command_of(pid)]
            assert len(own) == 1
            assert set(provers) <= set(descendants(own[0]))
        until(lambda: not any(map(alive, own + provers)), "worker and prover end")
        until(lambda: not list(lab.temp.glob(f"*/tabs/{name}")), "their folder goes")
        assert lab.get("/").code == 200

    @pytest.mark.parametrize(
        "how", [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGHUP))]
    )
    def test_a_signal_ends_everything(self, tmp_path, how):
        with serving(tmp_path) as server, server.tab() as tab:
            begin_proof(server, tab)
            below = server.workers()
            assert len(below) >= 2
            server.process.send_signal(how)
            said, _ = server.process.communicate(timeout=PATIENCE)
            assert server.process.returncode == (0 if how == signal.SIGINT else -how)
            assert said.strip() == ""
            until(lambda: not any(map(alive, below)), "no process is left")
            assert list(server.temp.iterdir()) == []

    @pytest.mark.slow
    def test_a_server_that_was_killed_leaves_no_process(self, tmp_path):
        with serving(tmp_path) as server, server.tab() as tab:
            begin_proof(server, tab)
            below = server.workers()
            server.process.kill()
            until(lambda: not any(map(alive, below)), "workers end when nobody listens")


class TestCommand:
    def run(self, *arguments):
        command = [sys.executable, "-m", "wideproof", "lab", "--no-browser", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    def test_a_port_in_use(self, lab):
        done = self.run("--port", str(lab.port))
        assert done.returncode == 2
        assert f"cannot listen at 127.0.0.1, port {lab.port}" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("port", ["-1", "65536"])
    def test_no_port_at_all(self, port):
        done = self.run("--port", port)
        assert done.returncode == 2
        assert "a port must be a number" in done.stderr

    def test_a_host_that_is_not_here(self):
        done = self.run("--host", "192.0.2.1")
        assert done.returncode == 2
        assert "cannot listen at 192.0.2.1" in done.stderr

    def test_everywhere_is_warned_of_and_reached_by_number_only(self, tmp_path):
        with serving(tmp_path, "--host", "0.0.0.0") as server:
            assert "Warning" in server.said
            assert "nothing is encrypted" in server.said
            assert server.address.startswith("http://127.0.0.1:")
            for host, code in {
                "192.168.1.7": 200,
                "127.0.0.1": 200,
                "evil.example": 403,
                "192.168.1.7.evil": 403,
            }.items():
                at = f"{host}:{server.port}"
                assert server.get("/", Host=at, Origin=f"http://{at}").code == code

    def test_here_is_not_warned_of(self, lab):
        assert "Warning" not in lab.said
