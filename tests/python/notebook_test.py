"""The notebooks of examples/python with the demo model: their code cells in order, without Jupyter.

    notebook_test.py MODEL
"""
import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"

try:
    import matplotlib
    matplotlib.use("agg")
except ImportError:
    matplotlib = None


def run(name):
    """The namespace after the code cells of a notebook, what they print, and the values of cells that end in one."""
    notebook = json.loads((NOTEBOOKS / name).read_text())
    names, shown, printed = {"__name__": "__main__"}, [], io.StringIO()
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"{name}, cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"{name}, cell {number}", "exec"), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), f"{name}, cell {number}", "eval"), names))
    return names, printed.getvalue(), [value for value in shown if value is not None]


class Notebooks(unittest.TestCase):
    def test_none_has_outputs(self):
        for path in NOTEBOOKS.glob("*.ipynb"):
            for cell in json.loads(path.read_text())["cells"]:
                self.assertFalse(cell.get("outputs"), path)

    def test_08_degrees(self):
        names, printed, shown = run("08_degrees.ipynb")
        self.assertEqual([row["tp"] for row in names["measured"]], [1, 2, 3])
        self.assertEqual([type(value).__name__ for value in shown], ["Plan", "Graph"])
        for value in shown:
            self.assertIn("<table>", value._repr_html_())
        self.assertEqual([degree["degree"] for degree in names["plan"]["degrees"] if degree["works"]], list(range(1, 10)))
        self.assertIn("collectives,", printed)
        self.assertEqual("found no matplotlib" in printed, matplotlib is None)


if __name__ == "__main__":
    os.environ["LOCKSTEP_MODEL"] = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
