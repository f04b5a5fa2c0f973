"""Hosts for tests: network namespaces joined by cables, each with its own name, /dev/shm and /etc/hosts.

    with hosts.Hosts(2) as group:
        subprocess.run(group.on(0, ["hostname"]))                          # "node0"
        subprocess.run(group.mpirun([2, 2]) + [program, "generate", …])    # mpirun on node0, two ranks on each host

Nothing of it is visible outside: the namespaces have no names, and they end with the processes that hold them, which
end with this process in any case. Several groups may exist at a time. Needs root, iproute2 and util-linux.
"""
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import waiting

SUBNET = "10.77.0.0/24"  # of the network that all hosts share: interface net0
SUBNET_OF_IPV6 = "fd77::/64"  # of hosts whose network has no IPv4
KINDS = ("net", "uts", "mnt", "ipc")  # of a host's private namespaces
NEEDED = ("ip", "unshare", "nsenter", "hostname", "mount")


def why_not():
    """Why this machine does not support such hosts; None if it does."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not there (Debian: iproute2, util-linux, hostname)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Hosts(1):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"this machine refuses network namespaces ({error})"


class Host:
    """One host: a process that only keeps its namespaces."""

    def __init__(self, number, folder, address):
        self.name = f"node{number}"
        self.address = address
        # A private /sys shows the host's network interfaces; the cgroups in it stay those of the machine.
        script = ("hostname \"$0\" && mount -t tmpfs tmpfs /dev/shm && mount --bind \"$1/hosts\" /etc/hosts && "
                  "mount --rbind /sys/fs/cgroup \"$1/cgroup\" && mount -t sysfs sysfs /sys && "
                  "mount --rbind \"$1/cgroup\" /sys/fs/cgroup && ip link set lo up && echo ready && exec cat")
        # `cat` ends when its input closes, at the end of this process.
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--ipc", "sh", "-c", script, self.name, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.keeper.stdout.readline() != b"ready\n":
            reason = self.keeper.stderr.read().decode(errors="replace").strip()
            self.end()
            raise OSError(f"{self.name} cannot be made: {reason}")

    def enter(self):
        """The command that runs what follows it on this host, in the same working directory."""
        return ["sh", "-c", f"exec nsenter -t {self.keeper.pid} --net --uts --mount --ipc --wdns=\"$PWD\" -- \"$@\"", "sh"]

    def ip(self, arguments):
        """Runs `ip` on this host."""
        subprocess.run([*self.enter(), "ip", *arguments.split()], check=True, capture_output=True, timeout=30)

    def processes(self):
        """The processes on this host, except its keeper."""
        own = os.stat(f"/proc/{self.keeper.pid}/ns/net").st_ino
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.stat(f"/proc/{entry}/ns/net").st_ino == own:
                    found.append(int(entry))
            except OSError:
                continue  # the process has just ended
        return [pid for pid in found if pid != self.keeper.pid]

    def end(self):
        """Kills all processes here; the namespaces end with the last process."""
        if self.keeper.poll() is None:
            deadline = time.monotonic() + 10
            while (left := self.processes()) and time.monotonic() < deadline:
                for pid in left:
                    waiting.signal_if_there(pid)
                time.sleep(0.02)
            self.keeper.kill()
        self.keeper.communicate()


class Hosts:
    """`count` hosts, node0 … at 10.77.0.1 …, or fd77::1 … with `ipv6`, on one network. A context manager."""

    def __init__(self, count, ipv6=False):
        self.count = count
        self.ipv6 = ipv6
        self.hosts = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-hosts-"))
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __getitem__(self, number):
        return self.hosts[number]

    def __len__(self):
        return len(self.hosts)

    def on(self, number, command):
        """The command that starts `command` on a host."""
        return [*self.hosts[number].enter(), *map(str, command)]

    def mpirun(self, ranks, options=()):
        """Open MPI's mpirun on node0 with `ranks[i]` ranks on host i; the program and its arguments follow."""
        network = "net0" if self.ipv6 else SUBNET  # Open MPI knows no subnets of IPv6
        slots = ",".join(f"{host.name}:{count}" for host, count in zip(self.hosts, ranks) if count)
        return self.on(0, [
            "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.remote_shell,
            "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network, "--mca", "pml", "ob1",
            "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "--host", slots,
            "-n", sum(ranks), *options])

    def mpirun_mpich(self, ranks, options=()):
        """The same with MPICH's mpirun."""
        slots = ",".join(f"{host.name}:{count}" for host, count in zip(self.hosts, ranks) if count)
        return self.on(0, ["mpirun.mpich", "-launcher", "rsh", "-launcher-exec", self.remote_shell, "-iface", "net0",
                           "-hosts", slots, "-n", sum(ranks), *options])

    def add_blind_interface(self, name="blind0", address="172.30.0.1/16"):
        """Adds the same address on every host, on a network without connection, like a container bridge."""
        for host in self.hosts:
            host.ip(f"link add {name} type veth peer name {name}x")
            host.ip(f"addr add {address} dev {name}")
            host.ip(f"link set {name} up")
            host.ip(f"link set {name}x up")

    def _make(self):
        addresses = [f"fd77::{i + 1}" if self.ipv6 else f"10.77.0.{i + 1}" for i in range(self.count)]
        lines = ["127.0.0.1 localhost"]
        lines += [f"{address} node{i}" for i, address in enumerate(addresses)]
        (self.folder / "cgroup").mkdir()
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        for number, address in enumerate(addresses):
            self.hosts.append(Host(number, self.folder, address))
        self._join()
        self.remote_shell = self._write_remote_shell()

    def _join(self):
        """A cable between two hosts; a bridge on node0 for more."""
        first, others = self.hosts[0], self.hosts[1:]
        if len(others) == 1:
            first.ip(f"link add net0 type veth peer name net0 netns {others[0].keeper.pid}")
        elif others:
            first.ip("link add net0 type bridge")
            for number, other in enumerate(others, 1):
                first.ip(f"link add port{number} type veth peer name net0 netns {other.keeper.pid}")
                first.ip(f"link set port{number} master net0")
                first.ip(f"link set port{number} up")
        for host in self.hosts if others else []:
            if self.ipv6:
                host.ip(f"addr add {host.address}/64 dev net0 nodad")
            else:
                host.ip(f"addr add {host.address}/24 dev net0")
            host.ip("link set net0 up")
            host.ip(f"{'-6 ' if self.ipv6 else ''}route add default dev net0")

    def _write_remote_shell(self):
        """A stand-in for ssh, `remote-shell [-option…] HOST COMMAND…`: mpirun starts its daemons with it."""
        path = self.folder / "remote-shell"
        cases = "\n".join(f"  {host.name}|{host.address}) set -- {shlex.join(host.enter())} /bin/sh -c \"$*\" ;;"
                          for host in self.hosts)
        path.write_text("#!/bin/sh\n"
                        "while case $1 in -*) true ;; *) false ;; esac; do shift; done\n"
                        "host=$1\nshift\n"
                        f"case $host in\n{cases}\n"
                        "  *) echo \"remote-shell: unknown host $host\" >&2; exit 255 ;;\nesac\n"
                        "exec \"$@\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)


if __name__ == "__main__":  # hosts.py N COMMAND…: runs the command on node0 of N hosts
    with Hosts(int(sys.argv[1])) as made:
        sys.exit(subprocess.run(made.on(0, sys.argv[2:]), check=False).returncode)
