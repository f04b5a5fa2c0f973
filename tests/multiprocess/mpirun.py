"""Words and variables of the mpirun of these tests: Open MPI's, or MPICH's if LOCKSTEP_MPIRUN names it."""
import os
import shlex
import subprocess

# Rank 1 with another host name.
ON_TWO_HOSTS = """#!/bin/sh
[ "${variable}" = 1 ] || exec {program} "$@"
exec unshare --uts sh -c 'hostname another-host && exec "$0" "$@"' {program} "$@"
"""

PROGRAM = os.environ.get("LOCKSTEP_MPIRUN", "mpirun")


def is_mpich(program=PROGRAM):
    return any(word in os.path.basename(program) for word in ("mpich", "hydra"))


NAME = "MPICH's mpiexec (PMI)" if is_mpich() else "Open MPI's mpirun"  # as the program's messages call it
RANK_VARIABLE = "PMI_RANK" if is_mpich() else "OMPI_COMM_WORLD_RANK"
# Of a rank that is alone on its host.
ALONE = (["MPI_LOCALNRANKS=1", "MPI_LOCALRANKID=0"] if is_mpich() else
         ["OMPI_COMM_WORLD_LOCAL_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0"])
ENDS_ALL = is_mpich()  # after a rank was killed, also with survive=True; maybe before the others have a record
NAMES_JOB = not is_mpich()  # ranks of one host meet before MPI_Init


def words(program=PROGRAM, survive=False, tag=False, crowded=True, idle_yields=False):
    """The mpirun and its options, without binding. `survive`: a rank may die without the others being killed; `tag`:
    lines of output begin with the rank; `crowded`: more ranks than cores are fine; `idle_yields`: MPI's own waits
    yield."""
    if is_mpich(program):  # any number of ranks is fine
        return [program, "-bind-to", "none", *["-disable-auto-cleanup"] * survive, *["-prepend-rank"] * tag]
    return [program, "--bind-to", "none", *["--enable-recovery"] * survive, *["--tag-output"] * tag,
            *["--oversubscribe"] * crowded, *["--mca", "mpi_yield_when_idle", "1"] * idle_yields]


def on_two_hosts(folder, program):
    """A program for mpirun in `folder`: `program`, whose rank 1 counts as one of another host. None where a process cannot
    have a host name alone."""
    if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode != 0:
        return None
    path = folder / "lockstep-on-two-hosts"
    path.write_text(ON_TWO_HOSTS.format(variable=RANK_VARIABLE, program=shlex.quote(os.path.abspath(program))))
    path.chmod(0o755)
    return path


def environment():
    """This process's, with what lets root start ranks."""
    more = {name: "1" for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") if os.geteuid() == 0}
    return {**os.environ, **more}
