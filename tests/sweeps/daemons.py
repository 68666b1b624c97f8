"""SLURM itself on this machine: munged, slurmctld and slurmd with a configuration of their own, on 127.0.0.1 only."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket,cred_expire=5
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=0
ReturnToService=2
KillWait=5
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def why_not():
    """Return what is missing on this machine; nothing where SLURM can be started."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"SLURM is not installed here ({', '.join(missing)}): Debian's slurmctld, slurmd, slurm-client and munge"
    return "" if os.geteuid() == 0 else "SLURM's daemons are started as root here"


def slurm(*command):
    """Run one of SLURM's commands and return what it prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def until(reached, seconds=120):
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := reached():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"not reached in {seconds} s")


@contextlib.contextmanager
def cluster():
    """Start the three daemons, wait for the node, and end everything that they started; yields their folder."""
    place = Path(tempfile.mkdtemp(prefix="slurm-"))
    place.chmod(0o711)
    for name in ("munge", "state", "spool"):
        (place / name).mkdir(mode=0o711)
    (place / "munge" / "key").write_bytes(secrets.token_bytes(128))
    (place / "munge" / "key").chmod(0o600)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in held]
    host = socket.gethostname().partition(".")[0]
    (place / "slurm.conf").write_text(CONFIGURATION.format(host=host, place=place, ports=ports))
    before, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(place / "slurm.conf")
    running = []
    try:
        munge = [f"--{name}={place}/munge/{what}" for name, what in (
            ("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("seed-file", "seed"), ("log-file", "log"),
        )]  # fmt: skip
        for command in (["munged", "--foreground", *munge], ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            log = (place / f"{command[0]}.out").open("wb")
            with log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
            if command[0] == "munged":
                until((place / "munge" / "socket").exists, 20)
        until(lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout, 60)
        yield place
    finally:
        with contextlib.suppress(subprocess.SubprocessError, TimeoutError):
            slurm("scancel", "--user=root", "--signal=KILL")
            slurm("scancel", "--user=root")
            until(lambda: not slurm("squeue", "--noheader"), 60)
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(running):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(place, ignore_errors=True)
