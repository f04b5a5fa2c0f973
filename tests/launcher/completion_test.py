"""`lockstep completion` and `lockstep man`: they are complete, and shells and troff accept them.

    completion_test.py PROGRAM
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "launch"))
import test_folder  # noqa: E402

PROGRAM = None
SHELLS = ("bash", "zsh", "fish")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False,
                          **options)


def text(*words):
    done = run(PROGRAM, *words)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


def commands():
    listed = text("--help").partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z]+)", listed, re.MULTILINE)


def options(*command):
    """The names of --help, without the suffixes of flags ("--strict{false}")."""
    names = []
    for line in text(*command, "--help").splitlines():
        column = re.match(r"\s+(-[^\s]*)", line)
        names += re.findall(r"--?[a-z][\w-]*", column.group(1)) if column else []
    assert "--help" in names, command
    return names


class Files(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = {shell: cls.folder / f"lockstep.{shell}" for shell in SHELLS}
        for shell, path in cls.files.items():
            path.write_text(text("completion", shell))
        cls.page = cls.folder / "lockstep.1"
        cls.page.write_text(text("man"))

    def bash(self, *words):
        """The completions after the last word."""
        array = " ".join(f"'{word}'" for word in words)
        script = (f"source {self.files['bash']}; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _lockstep; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = run("bash", "-c", script, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_every_option_of_every_command_is_there(self):
        sections = re.split(r"^\.SS lockstep ", self.page.read_text(), flags=re.MULTILINE)
        page = {section.split("\n", 1)[0]: section.replace("\\-", "-") for section in sections[1:]}
        self.assertEqual(sorted(page), sorted(commands()))
        self.assertIn("generate", page)
        zsh = re.split(r"^    (\w+)\)$", self.files["zsh"].read_text(), flags=re.MULTILINE)
        zsh = dict(zip(zsh[1::2], zsh[2::2]))
        fish = self.files["fish"].read_text().splitlines()
        for command in commands():
            offered = self.bash("lockstep", command, "-")
            lines = " ".join(line for line in fish if f"__fish_seen_subcommand_from {command}'" in line) + " "
            for option in options(command):
                self.assertIn(option, offered, command)
                self.assertIn(f"'{option}[", zsh[command].replace("'*", "'"), command)
                self.assertIn(f"\\fB{option}\\fR", page[command], command)
                long = option.startswith("--")
                self.assertIn(f" -l {option[2:]} " if long else f" -s {option[1:]} ", lines, command)

    def test_bash_offers_commands_options_and_values(self):
        self.assertEqual(self.bash("lockstep", "gen"), ["generate"])
        self.assertEqual(set(self.bash("lockstep", "")) - {"-h", "--help", "--version"}, set(commands()))
        self.assertEqual(self.bash("lockstep", "generate", "--num-b"), ["--num-beams"])
        self.assertEqual(self.bash("lockstep", "generate", "--launch", ""), ["mpi", "processes", "threads"])
        self.assertEqual(self.bash("lockstep", "generate", "--launch", "=", "t"), ["threads"])
        self.assertEqual(self.bash("lockstep", "generate", "--launch", "="), ["mpi", "processes", "threads"])
        self.assertEqual(self.bash("lockstep", "completion", "z"), ["zsh"])
        self.assertEqual(self.bash("lockstep", "sing", ""), [])
        self.assertEqual(self.bash("lockstep", "generate", "--top-k", ""), [])
        (self.folder / "models").mkdir()
        (self.folder / "models.json").write_text("{}")
        self.assertEqual(self.bash("lockstep", "generate", "--model", "mod"), ["models"])
        self.assertEqual(sorted(self.bash("lockstep", "generate", "--ids-file", "mod")), ["models", "models.json"])

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_offers_the_same(self):
        def offered(line):
            done = run("fish", "-c", f"source {self.files['fish']}; complete -C '{line}'", cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [row.split("\t")[0] for row in done.stdout.splitlines()]

        self.assertEqual(offered("lockstep gen"), ["generate"])
        self.assertEqual(offered("lockstep generate --num-b"), ["--num-beams"])
        self.assertEqual(offered("lockstep generate --launch "), ["mpi", "processes", "threads"])
        self.assertEqual(offered("lockstep completion z"), ["zsh"])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_takes_the_file(self):
        done = run("zsh", "-f", "-c", "fpath=(" + str(self.folder) + " $fpath); autoload -Uz compinit; compinit -D -u; "
                   f"source {self.files['zsh']}; print $_comps[lockstep]")
        self.assertEqual((done.stdout, done.stderr), ("_lockstep\n", ""))

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_troff_has_nothing_to_say_of_the_page(self):
        done = run("groff", "-man", "-ww", "-z", self.page)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_shows_the_page(self):
        done = run("man", "-l", self.page, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
        if done.returncode != 0 and "groff" in done.stderr + done.stdout:
            self.skipTest("man without groff")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"--num-beams X")
        self.assertRegex(done.stdout, r"EXIT STATUS")

    def test_a_shell_that_is_not_served_is_refused(self):
        done = run(PROGRAM, "completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash,fish,zsh", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
