"""The templates of examples/cluster, run as their users would: on hosts, on one node, on two nodes, as an array.

    examples_test.py PROGRAM
"""
import json
import pathlib

import hosts
import launches
import slurm
import tiny_model

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster"


class Templates(launches.Launches):
    def submit(self, cluster, template, arguments):
        """Runs a template to its end; what it printed is added to what sbatch says."""
        done = cluster.batch(TEMPLATES / template, arguments, {"LOCKSTEP": launches.PROGRAM}, self.folder)
        for path in sorted(self.folder.glob("*.out")):
            done.stdout += path.read_text(errors="replace")
            path.unlink()
        return done


class OneNode(Templates):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = cls.enterClassContext(slurm.Slurm())

    def test_one_node(self):
        self.expect_tokens(self.submit(self.cluster, "one-node.sbatch", self.arguments("node")[1:]), "node", 2)

    def test_sweep_measures_each_degree_that_has_no_file_yet(self):
        config = self.folder / "config.json"
        config.write_text(json.dumps(tiny_model.CONFIG))
        arguments = ["--random-weights", "--config", config, "--prompt-tokens", 8, "--new-tokens", 4, "--repeats", 1,
                     "--warmup", 0, "--probe-mib", 1, "--threads", 1]
        results = self.folder / "results"
        results.mkdir()
        (results / "tp-1.json").write_text("{}")
        done = self.submit(self.cluster, "sweep.sbatch", arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "tp 1: there already")
        self.assertEqual((results / "tp-1.json").read_text(), "{}")
        for degree in (2, 4):
            self.assertEqual(json.loads((results / f"tp-{degree}.json").read_text())["world_size"], degree)


class SeveralHosts(Templates):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2))

    def test_several_nodes(self):
        with slurm.Slurm(self.group) as cluster:
            done = self.submit(cluster, "several-nodes.sbatch", self.arguments("nodes")[1:])
        self.expect_tokens(done, "nodes", 2)
        self.expect_words(done, "2 ranks on 2 hosts")
        records = list(self.folder.glob("records-*/rank-*.json"))
        self.assertEqual(sorted(json.loads(path.read_text())["rank"] for path in records), [0, 1])

    def test_mpirun_with_a_hostfile(self):
        script = [TEMPLATES / "mpirun-hosts.sh", TEMPLATES / "hosts.txt", *self.arguments("file")[1:]]
        done = self.run_command(self.group.on(0, script), {
            "LOCKSTEP": launches.PROGRAM, "NETWORK": hosts.SUBNET,
            "OMPI_MCA_plm_rsh_agent": self.group.remote_shell, "OMPI_MCA_mpi_yield_when_idle": "1"})
        self.expect_tokens(done, "file", 2)
        self.expect_words(done, "2 ranks on 2 hosts", "0 node0 0/1", "1 node1 0/1")


if __name__ == "__main__":
    launches.start_tests(slurm.why_not() or hosts.why_not())
