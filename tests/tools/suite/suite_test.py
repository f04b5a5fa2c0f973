"""Options and exit codes of the suite."""
import pathlib
import tempfile
import unittest
import unittest.mock

import suite
from figures import ChildRecord, ChildStatus
from report import Machine

MACHINE = Machine("vm", "a processor", 2)


def options(*words):
    return suite.parse(["--program", "bin/lockstep", *words])


class Options(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def setting(self, *words):
        return suite.setting_of(options(*words), self.folder, MACHINE)

    def test_defaults_are_the_shapes_and_the_scripts_of_the_source_tree(self):
        setting = self.setting()
        self.assertTrue(setting.large.is_file() and setting.small.is_file())
        self.assertEqual((setting.pairs, setting.repeats, setting.shared), (5, 2, ()))
        self.assertEqual(pathlib.Path(setting.compare[1]).name, "compare.py")

    def test_quick_means_fewer_pairs_unless_they_are_given(self):
        self.assertEqual((self.setting("--quick").pairs, self.setting("--quick").repeats), (2, 1))
        self.assertEqual(self.setting("--quick", "--pairs", "7").pairs, 7)

    def test_are_handed_on(self):
        (self.folder / "compare.py").touch()
        setting = self.setting("--rival-scripts", str(self.folder), "--rival", "ik=a b", "--probe-mib", "3", "--tp", "4",
                               "--threads", "2", "--config", "f.json", "--checkpoint", "c")
        self.assertEqual(setting.compare[1:], (str(self.folder / "compare.py"), "--models", str(self.folder / "models"),
                                               "--rival", "ik=a b"))
        self.assertEqual((setting.ranks, setting.threads, setting.shared), (4, 2, ("--probe-mib", "3")))
        self.assertEqual((setting.large, setting.small), (pathlib.Path("f.json").resolve(),) * 2)
        self.assertEqual(setting.checkpoint, pathlib.Path("c").resolve())

    def test_without_scripts_there_is_no_program_for_rivals(self):
        self.assertEqual(self.setting("--rival-scripts", str(self.folder)).compare, ())

    def test_wrong_ones_are_bad_usage_that_names_them(self):
        for words, name in ((["--rival", "ik"], "--rival"), (["--launch-template", "mpirun -n 2"], "{ranks}"),
                            (["--launch-template", "mpirun 'x"], "--launch-template")):
            with self.assertRaisesRegex(suite.SuiteError, name) as caught:
                self.setting(*words)
            self.assertEqual(caught.exception.code, 2)

    def test_ranks_are_threads_where_that_is_asked_for_or_there_is_no_mpirun(self):
        self.assertTrue(suite.launch_of("threads", 2).threads)
        self.assertEqual(suite.launch_of("srun -n '{ranks}'", 2).before(2), ["srun", "-n", "2"])
        for found, threads in (("/usr/bin/mpirun", False), (None, True)):
            with unittest.mock.patch("shutil.which", return_value=found):
                self.assertEqual(suite.launch_of("", 2).threads, threads)


class Ends(unittest.TestCase):
    def test_the_first_program_that_failed_decides_the_exit_code(self):
        def failed(code):
            return [ChildRecord("a", status=ChildStatus.FAILED, code=code, reason="why")]

        for code, expected in ((5, 5), (130, 130), (143, 4), (0, 4)):
            with self.assertRaisesRegex(suite.SuiteError, 'the measurement "m" failed at "a": why') as caught:
                suite.judge_children({"l": [ChildRecord("a", status=ChildStatus.REFUSED, code=3)], "m": failed(code),
                                      "n": failed(7)})
            self.assertEqual(caught.exception.code, expected)
        suite.judge_children({"l": [ChildRecord("a", status=ChildStatus.REFUSED, code=3), ChildRecord("b")]})
