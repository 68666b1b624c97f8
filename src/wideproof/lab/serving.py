"""Start the lab's server and open its page."""

from __future__ import annotations

import signal
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from wideproof.errors import InputError
from wideproof.interrupts import deliver, handling

LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    folder: str | Path = "proofs",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    token: str | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the lab until Ctrl-C.

    SIGTERM and SIGHUP close it as well, and then act as usual: they end the process, or call the handlers that were
    installed.

    Parameters
    ----------
    folder
        The folder of proofs, to which new proofs are saved.
    host
        The address to listen on; by default only this machine can reach it.
    port
        The port to listen on; 0 takes a free one.
    browser
        Whether to open the page in a browser.
    token
        The secret part of the address; by default a new one each time.
    tell
        Callback; receives the address, and warnings.
    """
    try:
        import uvicorn

        from wideproof.lab.server import ANYWHERE, Lab, make_app
    except ImportError as error:
        raise InputError(f"the lab needs {error.name}, which is not installed: pip install 'wideproof[lab]'") from None
    if not 0 <= port < 2**16:
        raise InputError(
            f"a port must be a number from 0 (a free one) to 65535, got {port}: choose another one with --port"
        )
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"the lab cannot listen at {host}, port {port} ({error.strerror}): choose another one with --port"
        ) from None
    port = listening.getsockname()[1]
    own = f"[{host}]" if ":" in host else host
    names = {own, "127.0.0.1", "localhost", "[::1]"} | ({socket.gethostname().lower()} if own in ANYWHERE else set())
    lab = Lab(Path(folder), names, port, token)
    shown = own if own not in ANYWHERE else "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    address = f"http://{shown}:{port}/?token={lab.token}"
    if host not in LOCAL:
        tell(f"Warning: the lab listens at {host}, so others can reach it who know the token; nothing is encrypted.")
    tell(f"The lab is open at\n\n    {address}\n\nCtrl-C ends it.")
    settings = uvicorn.Config(
        make_app(lab), log_level="warning", access_log=False, ws="websockets-sansio", ws_max_size=1 << 18,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(settings)
    if browser:
        webbrowser.open(address)
    caught: list[int] = []

    def stop(number: int, _: FrameType | None) -> NoReturn:  # uvicorn closes, and then repeats the signal
        caught.append(number)
        raise KeyboardInterrupt

    def hang_up(number: int, _: FrameType | None) -> None:
        caught.append(number)
        server.handle_exit(signal.SIGTERM, None)

    with handling((signal.SIGTERM,), stop), handling((signal.SIGHUP,), hang_up):
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            lab.clear()
            listening.close()
    for number in caught[:1]:
        deliver(number)
