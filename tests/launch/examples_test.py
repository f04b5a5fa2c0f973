"""The templates of examples/cluster, run like by users: on hosts, on one node, on two nodes, as an array.

    examples_test.py PROGRAM
"""
import csv
import json
import pathlib
import urllib.request

import hosts
import launches
import slurm
import tiny_model
import waiting

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster"


class Templates(launches.Launches):
    def submit(self, cluster, template, arguments):
        """Runs a template to its end; adds its output to that of sbatch."""
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

    def test_a_server_in_a_job_says_where_it_is_and_ends_with_the_jobs_signal(self):
        tiny_model.write_tokenizer(self.model)
        options = ["--model", self.model, "--threads", 1]
        done = self.cluster.run(["sbatch", "--parsable", TEMPLATES / "serve.sbatch", *map(str, options)],
                                environment={"LOCKSTEP": launches.PROGRAM}, folder=self.folder)
        job = done.stdout.strip()
        endpoint, log = self.folder / f"endpoint-{job}.json", self.folder / f"lockstep-serve-{job}.out"
        self.assertTrue(waiting.until(endpoint.exists), log.read_text() if log.exists() else "the job has not begun")
        found = json.loads(endpoint.read_text())
        self.assertEqual((found["job"], found["api_key_file"]), (job, str(self.folder / f"key-{job}")))
        self.assertIn(f" -L {found['port']}:127.0.0.1:{found['port']} ", found["ssh"])
        request = urllib.request.Request(found["base_url"] + "/models", headers={
            "Authorization": "Bearer " + pathlib.Path(found["api_key_file"]).read_text().strip()})
        with urllib.request.urlopen(request, timeout=launches.DEADLINE) as answer:
            self.assertEqual(json.load(answer)["data"][0]["id"], "model")
        self.cluster.run(["scancel", "--batch", "--signal=TERM", job])
        self.assertTrue(waiting.until(lambda: "JobState=COMPLETED" in self.cluster.run(
            ["scontrol", "show", "job", job]).stdout), log.read_text())
        self.assertFalse(endpoint.exists())

    def test_sweep_measures_each_degree_once(self):
        config = self.folder / "config.json"
        config.write_text(json.dumps(tiny_model.CONFIG))
        arguments = ["--random-weights", "--config", config, "--prompt-tokens", 8, "--new-tokens", 4, "--repeats", 1,
                     "--warmup", 0, "--probe-mib", 1, "--threads", 1]
        done = self.submit(self.cluster, "sweep.sbatch", arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        report = self.run_command([launches.PROGRAM, "sweep", "--out", self.folder / "sweep", "--report"])
        self.assertEqual(report.returncode, 0, report.stdout)
        with open(self.folder / "sweep" / "results.csv", newline="") as file:
            self.assertEqual(sorted(int(row["tp"]) for row in csv.DictReader(file)), [1, 2, 4])
        again = self.submit(self.cluster, "sweep.sbatch", arguments)
        self.expect_words(again, "in the journal already")


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
