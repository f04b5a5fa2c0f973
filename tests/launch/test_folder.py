"""A temporary folder for the tests of a class."""
import pathlib
import tempfile
import unittest


class FolderTests(unittest.TestCase):
    """Tests that share `folder`, which is removed after the last of them."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
