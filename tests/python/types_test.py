"""The types of the package, by mypy in strict mode: its own files, and a program that uses it.

    types_test.py PYTHON        of an environment that has the wheels mypy and numpy
"""
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "launch"))
import test_folder

PROGRAM = """
    import numpy as np
    import lockstep

    def shift(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return scores + 1

    def ends(ids: np.ndarray, scores: np.ndarray) -> bool:
        return bool(ids.shape[1] > 9)

    with lockstep.Model("DIR", tp=2, dtype="float32", launch="threads") as model:
        ids = model.generate([[1, 504, 2365]], max_new_tokens=12, logits_processor=[shift], stopping_criteria=[ends])
        rows: list[dict[str, object]] = model.score(ids, top=5)
        for token in model.stream("Once upon a time", max_new_tokens=20):
            text: str = token.text
        params = lockstep.SamplingParams(temperature=0.5, stop=["x"])
        answer: lockstep.Completion = model.complete(["One"], params)[0]
        reason: str = answer.outputs[0].finish_reason
        turns = [{"role": "user", "content": "Hi"}]
        texts: list[str] = [done.text for done in model.chat(turns, params)]
        seconds: float = float(model.timeline().seconds("decode").mean())
        names: list[str] = [node.op for node in model.graph("decode").collectives]

    async def read(model: lockstep.Model) -> list[int | None]:
        return [token.id async for token in model.stream([1, 2])]

    try:
        model.close()
    except lockstep.InputError as error:
        kind: str = error.kind
        rank: int | None = error.rank
"""
MISTAKES = ("model.complete(5)", "model.stream(\"x\").answers[0].no_such_field", "lockstep.SamplingParams(temperature=\"hot\")",
            "lockstep.Model(\"DIR\", launch=\"somehow\")", "model.score([[1]])[0].perplexity")


class Types(test_folder.FolderTests):
    def check(self, *words):
        """mypy's output."""
        done = subprocess.run([PYTHON, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir",
                               self.folder / "cache", *words], capture_output=True, text=True, timeout=200, check=False,
                              cwd=ROOT / "engine" / "python", env={**os.environ, "MYPYPATH": str(ROOT / "engine" / "python")})
        self.assertTrue(done.stdout, done.stderr)  # its exit code is that of a missing module too
        return done.stdout

    def test_the_package_and_a_program_have_no_mistakes(self):
        program = self.folder / "program.py"
        program.write_text(textwrap.dedent(PROGRAM))
        self.assertRegex(self.check("-p", "lockstep"), r"^Success: no issues found in \d\d source files\s*$")
        self.assertRegex(self.check(program), r"^Success: ")

    def test_a_programs_mistakes_are_found(self):
        program = self.folder / "mistakes.py"
        program.write_text("import lockstep\nmodel = lockstep.Model(\"DIR\")\n" + "\n".join(MISTAKES) + "\n")
        self.assertIn(f"Found {len(MISTAKES)} errors in 1 file", self.check(program))


if __name__ == "__main__":
    PYTHON = pathlib.Path(sys.argv[1])
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
