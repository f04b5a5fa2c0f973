"""Tests of tools/suite, which is no package: its modules find one another in its folder.

    python3 -m unittest discover -s tests/tools -p "*_test.py" -t tests/tools
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "suite"))
