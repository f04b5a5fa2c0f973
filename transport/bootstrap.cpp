#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "transport/exchange.h"
#include "transport/waiting.h"

namespace lockstep::transport {
namespace {

class SingleBootstrap final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "single"; }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    return std::vector<std::string>{std::string(mine)};
  }
  Result<void> barrier() override { return ok(); }
  Result<std::vector<RankPlace>> places() override { return exchange_places(*this, own_place()); }
  Result<void> finish() override { return ok(); }
};

struct DifferentLine {
  int number = 1;
  std::string_view found;
  std::string_view expected;
};

std::string_view line_at(std::string_view text) { return text.substr(0, text.find('\n')); }

/// The first line in which two different texts differ.
DifferentLine first_difference(std::string_view found, std::string_view expected) {
  DifferentLine line;
  while (true) {
    line.found = line_at(found);
    line.expected = line_at(expected);
    const bool either_ends = line.found.size() == found.size() || line.expected.size() == expected.size();
    if (line.found != line.expected || either_ends) return line;
    found.remove_prefix(line.found.size() + 1);
    expected.remove_prefix(line.expected.size() + 1);
    ++line.number;
  }
}

}  // namespace

std::unique_ptr<Bootstrap> make_single_bootstrap() { return std::make_unique<SingleBootstrap>(); }

std::vector<int> own_hardware_threads() {
  for (int limit = CPU_SETSIZE; limit <= 1 << 20; limit *= 2) {  // more than one set holds: a larger set
    cpu_set_t* const set = CPU_ALLOC(limit);
    const size_t bytes = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(bytes, set);
    const int status = sched_getaffinity(0, bytes, set);
    const int error = errno;
    std::vector<int> threads;
    for (int thread = 0; status == 0 && thread < limit; ++thread) {
      if (CPU_ISSET_S(thread, bytes, set)) threads.push_back(thread);
    }
    CPU_FREE(set);
    if (status == 0) return threads;
    if (error != EINVAL) break;
  }
  return {};
}

std::vector<int> available_hardware_threads() {
  constexpr int kMostThreads = 8192;
  cpu_set_t* const before = CPU_ALLOC(kMostThreads);
  cpu_set_t* const all = CPU_ALLOC(kMostThreads);
  const size_t bytes = CPU_ALLOC_SIZE(kMostThreads);
  CPU_ZERO_S(bytes, all);
  for (int thread = 0; thread < kMostThreads; ++thread) CPU_SET_S(thread, bytes, all);
  std::vector<int> threads;
  // The kernel applies the part of the mask that the process's cpuset allows.
  if (sched_getaffinity(0, bytes, before) == 0 && sched_setaffinity(0, bytes, all) == 0) {
    threads = own_hardware_threads();
    sched_setaffinity(0, bytes, before);
  }
  CPU_FREE(before);
  CPU_FREE(all);
  return threads.empty() ? own_hardware_threads() : threads;
}

Result<void> agree(Bootstrap& bootstrap, std::string_view what, std::string_view statement) {
  LOCKSTEP_TRY(const std::vector<std::string> statements, bootstrap.exchange(statement));
  std::vector<int> others;
  for (size_t rank = 1; rank < statements.size(); ++rank) {
    if (statements[rank] != statements[0]) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return ok();
  const int first = others.front();
  const DifferentLine line = first_difference(statements[first], statements[0]);
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[transport] the ranks disagree on {}: {} from rank 0; line {}: found '{}' on rank {}, expected "
                  "'{}' as on rank 0; start every rank with the same program, options and files",
                  what, rank_list(others) + (others.size() == 1 ? " differs" : " differ"), line.number, line.found,
                  first, line.expected),
      first};
}

}  // namespace lockstep::transport
