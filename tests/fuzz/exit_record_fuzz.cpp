// Fuzzes exit records: texts are skipped or read exactly, and the end that they decide has a documented code.
//
// Input: a byte that chooses how the ranks' process ended, and records with NUL bytes between them.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/process/attempt.h"
#include "launcher/process/exit_record.h"
#include "runtime/core/check.h"
#include "tests/fuzz/input_parts.h"

using namespace lockstep;
using namespace lockstep::launcher;

namespace {

std::vector<ExitRecord> records_of(std::string_view text) {
  std::vector<ExitRecord> records;
  for (const std::string_view one : fuzz::parts_of(text, '\0')) {
    const auto record = parse_exit_record(one);
    if (!record) continue;
    LOCKSTEP_CHECK(parse_exit_record(to_json(*record)) == record || one.find('\\') != one.npos, one);
    records.push_back(*record);
  }
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto records = records_of(std::string_view(reinterpret_cast<const char*>(data), size).substr(1));
  process::ChildOutcome outcome{.errors = "not enough slots"};
  if (data[0] % 4 == 0) {
    outcome.signal = 9;
  } else {
    outcome.code = data[0] % 4 - 1;
  }
  for (const WatchedChild child : {WatchedChild::kLauncher, WatchedChild::kRankZero}) {
    const AttemptEnd end = judge_attempt(outcome, child, records, /*ranks=*/4);
    LOCKSTEP_CHECK(end.code >= 0 && end.code <= 255, end.code);
    LOCKSTEP_CHECK((cause_of(end) == EndCause::kDone) == (end.code == 0), end.code);
    for (const int rank : end.lost_ranks) LOCKSTEP_CHECK(rank >= 0, rank);
    if (end.code != 0) static_cast<void>(kind_of(end));
  }
  return 0;
}
