// Fuzzes what sweeps and plans read again: journals, results and probes. It is refused, or written and read the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/inspect/machine_description.h"
#include "launcher/measure/doctor/rank_facts.h"
#include "launcher/measure/sweep/journal.h"
#include "launcher/measure/sweep/launch_words.h"
#include "launcher/measure/sweep/results.h"
#include "runtime/core/check.h"
#include "runtime/process/core_watch.h"

using namespace lockstep;
using namespace lockstep::launcher;

namespace {

void check_journal(std::string_view text) {
  const auto journal = parse_journal(text, "journal.jsonl");
  if (!journal.has_value()) {
    LOCKSTEP_CHECK(journal.error().kind == ErrorKind::kInvalidArgument, journal.error().message);
    return;
  }
  LOCKSTEP_CHECK(journal.value().whole_bytes <= text.size(), journal.value().whole_bytes);
  if (!journal.value().model) return;
  std::string lines = to_line(*journal.value().model);
  for (const PointRecord& point : journal.value().points) lines += to_line(point);
  const auto again = parse_journal(lines, "journal.jsonl");
  LOCKSTEP_CHECK(again.has_value() && again.value().whole_bytes == lines.size(), lines);
  LOCKSTEP_CHECK(again.value().points.size() == journal.value().points.size());
  for (const PointRecord& point : journal.value().points) static_cast<void>(parse_result(point.result));
}

void check_machine(const std::string& text) {
  if (const auto probe = inspect::parse_probe(text, "probe.json"); probe.has_value()) {
    LOCKSTEP_CHECK(probe.value().ranks >= 1 && probe.value().cores >= 1, probe.value().ranks, probe.value().cores);
    LOCKSTEP_CHECK(probe.value().rates.read_bytes_per_s > 0 && probe.value().rates.flops_per_s > 0);
  }
  if (const auto facts = parse_facts(text, /*rank=*/1); facts.has_value()) {
    const auto again = parse_facts(to_text(facts.value()), /*rank=*/1);
    LOCKSTEP_CHECK(again.has_value());
  }
  static_cast<void>(parse_cpu_max(text));
  static_cast<void>(parse_memory_max(text));
  static_cast<void>(process::parse_core_pressure(text));
  static_cast<void>(process::parse_stolen(text, /*ticks=*/100));
  static_cast<void>(parse_counts(text, "--tp", 1, 64));
  static_cast<void>(parse_launch_template(text, /*most_ranks=*/4));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_journal(text);
  if (const auto result = parse_result(std::string(text)); result.has_value()) {
    LOCKSTEP_CHECK(result.value().threads >= 0, result.value().threads);
  }
  check_machine(std::string(text));
  return 0;
}
