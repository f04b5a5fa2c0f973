"""A private Slurm for tests: munge, slurmctld and one slurmd per node, in a temporary folder, on free ports.

    with slurm.Slurm() as cluster:                       # one node: this machine
        cluster.run(["srun", "--mpi=pmix", "-n", "2", program, …])
    with hosts.Hosts(2) as group, slurm.Slurm(group) as cluster:  # a node on each of these hosts
        cluster.run(["sbatch", "--wait", "-N", "2", script])

No systemd, no accounting. The daemons are children of this process and end with it. Needs root and the Debian packages
slurm-wlm and munge.
"""
import contextlib
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NEEDED = ("slurmctld", "slurmd", "srun", "sbatch", "munged", "setpriv")
START_SECONDS = 60.0  # until every node is idle; usually one or two
STOP_SECONDS = 5.0
JOB_SECONDS = 120.0  # of one batch job
CPUS = 8  # of a node, independent of the machine, because tests start more ranks than cores

CONFIGURATION = """\
ClusterName=lockstep
SlurmctldHost={controller}({controller_address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=5,sched_interval=2
ReturnToService=2
KillWait=5
TmpFS={folder}/tmp-%n
MaxArraySize=100
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
NODE = ("NodeName={name} NodeAddr={address} NodeHostname={name} CPUs={cpus} Boards=1 SocketsPerBoard=1 "
        "CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4096 State=UNKNOWN\n")


def why_not():
    """Why this machine cannot run a private Slurm; None if it can."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not there (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons need root"


def free_port():
    """One that no connection of another program gets by itself before the daemon has it."""
    first_of_system = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10000, first_of_system), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"found no free port from 10000 to {first_of_system}")


class Slurm:
    """A running cluster. A context manager."""

    def __init__(self, group=None):
        self.group = group  # hosts.Hosts, or None: this machine alone
        self.daemons = []

    def __enter__(self):
        # munged requires folders that all may enter and only the owner may change.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        self.folder.chmod(0o755)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if (self.folder / "slurm.conf").exists() and self.daemons:
            self._cancel_jobs()
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self):
        """The environment for Slurm's commands to reach this cluster."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))}
        return {**clean, "SLURM_CONF": str(self.folder / "slurm.conf"), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                "SLURM_PMIX_FENCE": "tree"}  # docs/launching.md: a segmentation fault at the start

    def run(self, command, timeout=120, environment=None, folder=None):
        """Runs a command of Slurm on the first node: the finished process, stderr in stdout."""
        return subprocess.run(self._on(0, command), env={**self.environment(), **(environment or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=timeout, cwd=folder or self.folder, check=False)

    def batch(self, script, arguments=(), environment=None, folder=None):
        """Runs a batch script to its end: the finished sbatch, whose return code is the job's (the largest of an array's
        tasks). `sbatch --wait` polls less and less often; this polls often."""
        done = self.run(["sbatch", "--parsable", script, *arguments], environment=environment, folder=folder)
        if done.returncode != 0:
            return done
        end = time.monotonic() + JOB_SECONDS
        while True:
            text = self.run(["scontrol", "-o", "show", "job", done.stdout.strip()]).stdout
            if not re.search(r"JobState=(PENDING|RUNNING|CONFIGURING|COMPLETING)", text) or time.monotonic() > end:
                break
            time.sleep(0.2)
        codes = [int(code) or int(number) for code, number in re.findall(r" ExitCode=(\d+):(\d+)", text)]
        done.returncode = max(codes) if codes and time.monotonic() < end else 124
        done.stdout += text if done.returncode else ""
        return done

    def logs(self):
        """The daemons' logs, for a failed test."""
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}"
                         for path in sorted(self.folder.glob("*.log")))

    def _on(self, node, command):
        return self.group.on(node, command) if self.group else list(map(str, command))

    def _nodes(self):
        """(name, address) of each node."""
        if self.group:
            return [(host.name, host.address) for host in self.group.hosts]
        return [(socket.gethostname().split(".")[0], "127.0.0.1")]

    def _start(self):
        nodes = self._nodes()
        (self.folder / "state").mkdir()
        text = CONFIGURATION.format(folder=self.folder, controller=nodes[0][0], controller_address=nodes[0][1],
                                    controller_port=free_port(), node_port=free_port())
        for name, address in nodes:
            (self.folder / f"spool-{name}").mkdir()
            (self.folder / f"tmp-{name}").mkdir()
            text = text.replace("PartitionName", NODE.format(name=name, address=address, cpus=CPUS) + "PartitionName")
        (self.folder / "slurm.conf").write_text(text)
        self._start_munge()
        self._daemon(self._on(0, ["slurmctld", "-D", "-c", "-f", self.folder / "slurm.conf"]))
        for number in range(len(nodes)):
            self._daemon(self._on(number, ["slurmd", "-D", "-c", "-f", self.folder / "slurm.conf"]))
        self._wait_until_idle(len(nodes))

    def _start_munge(self):
        munge = self.folder / "munge"
        user = pwd.getpwnam("munge")
        munge.mkdir()
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        for path in (munge, munge / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        self._daemon(["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "munged",
                      "--foreground", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                      f"--log-file={munge}/log", f"--seed-file={munge}/seed"])
        self._wait_for((munge / "socket").exists, "munged's socket")

    def _daemon(self, command):
        # A signal at this process's death, so that nothing outlives a test that is killed.
        with open(self.folder / f"daemon-{len(self.daemons)}.log", "wb") as log:
            self.daemons.append(subprocess.Popen(
                ["setpriv", "--pdeathsig=TERM", *map(str, command)], env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, cwd=self.folder))

    def _wait_for(self, condition, what):
        end = time.monotonic() + START_SECONDS
        while not condition():
            ended = [daemon.args[1:] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                raise OSError(f"waited for {what}; daemons that ended: {ended}\n{self.logs()}")
            time.sleep(0.1)

    def _wait_until_idle(self, count):
        def all_idle():
            states = self.run(["sinfo", "-h", "-N", "-o", "%T"], timeout=30).stdout.split()
            return states.count("idle") == count
        self._wait_for(all_idle, f"{count} idle nodes")

    def _cancel_jobs(self):
        """A batch job outlives its slurmd, so this ends it while the controller still runs."""
        try:
            if self.run(["squeue", "-h"], timeout=10).stdout.strip():
                self.run(["scancel", "--user=root"], timeout=10)
                end = time.monotonic() + STOP_SECONDS
                while self.run(["squeue", "-h"], timeout=10).stdout.strip() and time.monotonic() < end:
                    time.sleep(0.2)
        except subprocess.TimeoutExpired:
            pass


if __name__ == "__main__":  # slurm.py COMMAND…: runs the command where it finds a cluster of one node
    with Slurm() as made:
        done = made.run(sys.argv[1:])
        print(done.stdout, end="")
        sys.exit(done.returncode)
