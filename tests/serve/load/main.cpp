// serve_load [PLAN.json]: sends a load (load_plan.h; default: standard input) to a server and prints what it measured
// (load_report.h). The exit code is 1 when a turn failed, 2 when the plan is wrong.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/serve/load/load_client.h"

int main(int argc, char** argv) {
  using lockstep::load::TurnRecord;
  std::ifstream file;
  if (argc > 1) file.open(argv[1]);
  std::istream& in = argc > 1 ? file : std::cin;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto plan = lockstep::load::LoadPlan::parse(text);
  if (!plan.has_value()) {
    std::cerr << plan.error().message << "\n";
    return 2;
  }
  const std::clock_t cpu = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<TurnRecord> turns = lockstep::load::run_load(plan.value());
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double cpu_s = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  std::cout << lockstep::load::report_json(turns, wall.count(), cpu_s) << "\n";
  return std::ranges::any_of(turns, [](const TurnRecord& turn) { return !turn.error.empty(); }) ? 1 : 0;
}
