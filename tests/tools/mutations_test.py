"""tools/mutations on sample text: places of faults, their order, choice of tests, and the verdict.

    mutations_test.py
"""
import json
import pathlib
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "mutations"))

import areas  # noqa: E402
import cpp_tokens  # noqa: E402
import faults  # noqa: E402
import suites  # noqa: E402
import tree  # noqa: E402
import verdicts  # noqa: E402

SAMPLE = r'''// a < b && c
#include <vector>
#if defined(__AVX512F__)
inline int wide(int a) { return a + 16; }
#endif
namespace lockstep {
constexpr int kSize = 4;
/* x = y + 1; */
std::string name_of(int rank) { return prefix + rank; }
Error too_many(int ranks) { return {ranks + 1}; }
int Ranks::sum(const std::vector<int>& parts, int first) {
  LOCKSTEP_CHECK(first < 9, first);
  const char* quoted = "a < b";
  const char* raw = R"(c == d; e = f + 1;)";
  int total = 0;
  for (int i = first; i < last_; ++i) {
    total += parts[i];
    barrier_.wait(total);
  }
  copy(total, first);
  LOCKSTEP_TRY(const int more, take(total));
  return is_small && total != 7 ? std::min(total, 100) : total;
}
}  // namespace lockstep
'''


def changes(kind, source=SAMPLE):
    return [fault.change for fault in faults.faults_of("shards/sample.cpp", source) if fault.kind == kind]


class Places(unittest.TestCase):
    def test_are_bounds_and_operators_between_blanks(self):
        self.assertEqual(changes("bound"), ["< → <="])
        self.assertEqual(changes("arithmetic"), ["++ → --", "+= → -="])
        self.assertEqual(changes("logic"), ["&& → ||"])
        self.assertEqual(changes("equality"), ["!= → =="])
        self.assertEqual(changes("smaller or larger"), ["min → max"])
        self.assertEqual(changes("constant"), ["0 → (0 + 1)", "7 → (7 + 1)", "100 → (100 + 1)"])
        self.assertEqual(changes("order of arguments"), ["total, first → first, total", "total, 100 → 100, total"][:1])

    def test_are_statements_that_declare_nothing(self):
        self.assertEqual(changes("dropped statement"),
                         ["total += parts[i]; → ;", "barrier_.wait(total); → ;", "copy(total, first); → ;"])
        self.assertEqual(changes("order of statements"), ["total += parts[i]; barrier_.wait(total); → "
                                                          "barrier_.wait(total); total += parts[i];"])

    def test_are_neither_comments_nor_strings_nor_messages_nor_checks(self):
        lines = {fault.text for fault in faults.faults_of("shards/sample.cpp", SAMPLE)}
        for word in ("//", "/*", "quoted", "raw", "wide", "kSize", "prefix", "ranks + 1", "LOCKSTEP_CHECK", "take"):
            self.assertFalse([line for line in lines if word in line], word)

    def test_of_two_assignments_have_an_order_only_if_one_uses_the_other(self):
        apart = "void f() {\n  row.a = x;\n  row.b = y;\n}\n"
        self.assertEqual(changes("order of statements", apart), [])
        self.assertEqual(len(changes("order of statements", apart.replace("= y", "= row.a"))), 1)

    def test_apply_to_their_own_text_alone(self):
        for fault in faults.faults_of("shards/sample.cpp", SAMPLE):
            changed = fault.apply(SAMPLE)
            self.assertNotEqual(changed, SAMPLE)
            if "\n" not in fault.before:
                differing = [i for i, (a, b) in enumerate(zip(SAMPLE.split("\n"), changed.split("\n"))) if a != b]
                self.assertEqual(differing, [fault.line - 1])

    def test_keep_their_names_while_other_lines_change(self):
        names = {fault.name for fault in faults.faults_of("shards/sample.cpp", SAMPLE)}
        longer = SAMPLE.replace("int total = 0;", "int total = 0;\n  note(first);")
        self.assertLess(names, {fault.name for fault in faults.faults_of("shards/sample.cpp", longer)})
        self.assertEqual(len(names), len(faults.faults_of("shards/sample.cpp", SAMPLE)))

    def test_raw_strings_and_digit_separators_are_single_tokens(self):
        texts = [token.text for token in cpp_tokens.tokens_of('int f() { return g(R"x(a")b)x", 1\'000, \'"\', 1e-5f); }')]
        self.assertIn('R"x(a")b)x"', texts)
        self.assertIn("1'000", texts)
        self.assertIn("1e-5f", texts)


class Order(unittest.TestCase):
    def setUp(self):
        self.faults = [fault for name in ("a", "b", "c") for fault in faults.faults_of(f"shards/{name}.cpp", SAMPLE)]

    def test_depends_on_the_seed_alone(self):
        order = faults.in_order(self.faults, seed=1, per_file=2)
        self.assertEqual(order, faults.in_order(self.faults[::-1], seed=1, per_file=2))
        self.assertNotEqual(order, faults.in_order(self.faults, seed=2, per_file=2))
        self.assertCountEqual(order, self.faults)

    def test_takes_kinds_in_turn_and_few_of_a_file(self):
        order = faults.in_order(self.faults, seed=1, per_file=2)
        self.assertEqual([fault.kind for fault in order[:3]], list(faults.KINDS[:3]))
        self.assertTrue(all(sum(fault.file == f"shards/{name}.cpp" for fault in order[:6]) == 2 for name in "abc"))

    def test_an_area_has_the_sources_of_its_own_folders(self):
        files = ["transport/a.cpp", "transport/mpi/b.cpp", "transport/mpi/unavailable.cpp", "transport/c.h", "actors/d.cpp"]
        transport = next(area for area in areas.AREAS if area.name == "transport")
        self.assertEqual(areas.sources_of(transport, files), files[:2])

    def test_all_areas_have_sixty_faults(self):
        self.assertEqual(sum(area.count for area in areas.AREAS), 60)


class Tests(unittest.TestCase):
    def test_of_the_folder_come_first_then_interfaces_models_and_processes(self):
        def test(name, labels, source, seconds=1.0):
            return suites.Test(name, labels, (f"bin/{name}",), frozenset({"a.o", source}), seconds)

        tests = [test("whole", ("model",), "tests/model/whole_test.cpp"),
                 test("ranks", ("multiprocess",), "tests/multiprocess/ranks_test.cpp"),
                 test("same", ("unit",), "tests/transport/mpi/world_test.cpp", 9.0),
                 test("near", ("unit",), "tests/transport/mpi/queue_test.cpp"),
                 test("suite", ("conformance",), "tests/conformance/suite_test.cpp"),
                 test("far", ("unit",), "tests/launcher/far_test.cpp"),
                 suites.Test("other", ("unit",), ("bin/other",), frozenset({"b.o"}))]
        order = suites.in_order(tests, "transport/mpi/world.cpp", {"a.o"})
        self.assertEqual([test.name for test in order], ["same", "near", "suite", "whole", "ranks", "far"])


class Verdict(unittest.TestCase):
    def setUp(self):
        self.faults = faults.faults_of("shards/sample.cpp", SAMPLE)[:10]
        self.results = {fault.name: {"status": "caught"} for fault in self.faults}

    def verdict(self, arguments=None):
        return verdicts.verdict(self.faults, lambda fault: self.results.get(fault.name), arguments or {})

    def test_counts_and_names_survivors(self):
        survivor, other = self.faults[:2]
        self.results[survivor.name] = self.results[other.name] = {"status": "survived"}
        counts, survivors, share = self.verdict()
        self.assertEqual((counts["caught"], counts["survived"], survivors), (8, 2, [survivor, other]))
        self.assertFalse(verdicts.is_good(counts, share))
        counts, survivors, share = self.verdict({survivor.name: {"equivalent": "why"}})
        self.assertEqual((counts["equivalent"], counts["survived"], survivors), (1, 1, [other]))
        self.assertEqual(verdicts.summary(counts, share), "10 faults planted: 8 caught, 1 equivalent, 1 survived; "
                                                          "89 % of those not equivalent are caught")
        self.assertFalse(verdicts.is_good(counts, share))
        counts, _, share = self.verdict({fault.name: {"equivalent": "why"} for fault in (survivor, other)})
        self.assertTrue(verdicts.is_good(counts, share))

    def test_a_fault_that_was_not_judged_is_no_success(self):
        del self.results[self.faults[0].name]
        counts, _, share = self.verdict()
        self.assertEqual(counts["not judged"], 1)
        self.assertFalse(verdicts.is_good(counts, share))

    def test_a_fault_that_does_not_compile_is_replaced(self):
        self.results = {self.faults[1].name: {"status": "does not compile"}}
        chosen = verdicts.chosen(self.faults, 3, lambda fault: self.results.get(fault.name))
        self.assertEqual(chosen, [self.faults[0], self.faults[2], self.faults[3]])

    def test_a_result_holds_until_its_source_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            sources = {"shards/sample.cpp": SAMPLE}
            results = verdicts.Results(pathlib.Path(folder) / "results", sources.get)
            results.write(self.faults[0], {"status": "survived"})
            self.assertEqual(results.read(self.faults[0])["status"], "survived")
            self.assertIsNone(results.read(self.faults[1]))
            sources["shards/sample.cpp"] += "\n"
            self.assertIsNone(results.read(self.faults[0]))


class Survivors(unittest.TestCase):
    def test_have_a_place_and_one_of_argument_and_test(self):
        entries = json.loads((ROOT / "tools" / "mutations" / "survivors.json").read_text(encoding="utf-8"))
        for entry in entries:
            self.assertEqual(set(entry) - {"equivalent", "caught by"}, {"name", "file", "line", "change"}, entry)
            self.assertEqual(len(set(entry) & {"equivalent", "caught by"}), 1, entry)
        self.assertEqual(len({entry["name"] for entry in entries}), len(entries))


class Processes(unittest.TestCase):
    def test_end_at_their_deadline_with_all_descendants(self):
        began = time.monotonic()
        with self.assertRaises(tree.Expired):
            tree.run(["sh", "-c", "setsid tail -f /dev/null & wait"], 0.2)
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual(tree.run(["sh", "-c", "echo out; exit 3"], 60), (3, "out\n"))


if __name__ == "__main__":
    unittest.main()
