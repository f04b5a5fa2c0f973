"""The progress line: drawn and erased on a terminal, absent from a pipe."""
import json
import os
import pty
import re
import select
import subprocess

import launches
import test_folder
import tiny_model

ROWS = 800
ERASE = "\r\x1b[K"


class Progress(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tiny_model.write(cls.folder / "model")
        rows = [json.dumps({"ids": [5, 9, row % 100 + 3]}) for row in range(ROWS)]
        (cls.folder / "rows.jsonl").write_text("\n".join(rows))

    def command(self, *options):
        return [launches.PROGRAM, "generate", "--launch", "threads", "--tp", "2", "--threads", "1", "--model",
                str(self.folder / "model"), "--prompts-file", str(self.folder / "rows.jsonl"), "--output",
                str(self.folder / "answers.jsonl"), "--max-new-tokens", "60", "--ignore-eos", "--batch-size", "2", *options]

    def on_terminal(self, command, terminal="xterm"):
        """What a terminal gets of stderr."""
        leader, follower = pty.openpty()
        environment = {**launches.environment(), "TERM": terminal}
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower,
                                 env=environment)
        os.close(follower)
        text = b""
        while select.select([leader], [], [], launches.DEADLINE)[0]:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the last writer has closed it
                break
            text += part
        os.close(leader)
        self.assertEqual(child.wait(timeout=launches.DEADLINE), 0, text)
        return text.decode()

    def in_pipe(self, *options):
        done = subprocess.run(self.command(*options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=launches.DEADLINE, check=False,
                              env={**launches.environment(), "TERM": "xterm"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr + done.stdout

    def test_rows_are_counted_on_a_terminal_and_wiped_at_the_end(self):
        text = self.on_terminal(self.command())
        self.assertRegex(text, r"\r\x1b\[Krows    \[#* *\] +0 %  0 of 800 rows")
        self.assertRegex(text, r"\[#+ *\] +\d+ %  \d+ of 800 rows, [\d.]+ tokens/s, \d+ s left")
        # What stays: every drawing is followed by an erasure, and whole lines alone are left.
        lines = [line.rpartition(ERASE)[2].rstrip("\r") for line in text.split("\n")]
        self.assertEqual(lines[-1], "")
        self.assertTrue(all(re.match(r"\[r0\] |$|rank|0 |1 |   ", line) for line in lines), lines)
        self.assertTrue(any("800 answered" in line for line in lines), lines)

    def test_a_pipe_gets_not_one_byte_of_it(self):
        text = self.in_pipe()
        self.assertNotIn("\r", text)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("tokens/s", text)
        self.assertIn("800 answered", text)

    def test_it_can_be_asked_for_and_refused(self):
        self.assertIn("0 of 800 rows", self.in_pipe("--progress", "always"))
        self.assertNotIn("\x1b", self.on_terminal(self.command("--progress", "never")))
        self.assertNotIn("\x1b", self.on_terminal(self.command(), terminal="dumb"))


if __name__ == "__main__":
    launches.start_tests()
