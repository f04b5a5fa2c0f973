#include "runtime/backends/neuron/group_compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <vector>

namespace lockstep::neuron {
namespace {

/// Returns the texts of all ranks, in rank order.
Result<std::vector<std::string>> gather(device::Communicator& group, std::string_view own) {
  std::string all(own.size() * static_cast<size_t>(group.size()), '\0');
  const std::vector<int64_t> counts(static_cast<size_t>(group.size()), std::ssize(own));
  LOCKSTEP_TRY_VOID(group.all_gather(std::as_bytes(std::span(own)), counts, std::as_writable_bytes(std::span(all)),
                                     device::Stream::host()));
  std::vector<std::string> words;
  for (size_t begin = 0; begin < all.size(); begin += own.size()) words.push_back(all.substr(begin, own.size()));
  return words;
}

/// The most frequent word; the first one on a tie.
std::string most_frequent(const std::vector<std::string>& words) {
  return *std::ranges::max_element(words, {}, [&](const std::string& word) { return std::ranges::count(words, word); });
}

// The state of a rank while it gets an artifact.
constexpr std::string_view kBusy = "b", kDone = "d", kFailed = "f";

}  // namespace

Result<void> agree_on_module(device::Communicator* group, std::string_view module, std::string_view hash) {
  if (group == nullptr || group->size() == 1) return ok();
  LOCKSTEP_TRY(const std::vector<std::string> hashes, gather(*group, hash));
  const std::string expected = most_frequent(hashes);
  std::vector<std::string> found;
  std::vector<int> differing;
  for (int rank = 0; rank < group->size(); ++rank) {
    const std::string& theirs = hashes[static_cast<size_t>(rank)];
    if (theirs == expected) continue;
    differing.push_back(rank);
    found.push_back(theirs.substr(0, 16));
  }
  if (differing.empty()) return ok();
  Error error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/backends/neuron] cannot load {}: found the modules {} on ranks {}, expected {} as on "
                  "the others; check that these ranks run the same program, options and checkpoint",
                  module, fmt::join(found, ", "), fmt::join(differing, ", "), expected.substr(0, 16))};
  if (differing.size() == 1 && group->size() > 2) error.origin_rank = differing.front();
  return error;
}

Result<device::Artifact> get_together(device::Communicator* group, std::string_view module,
                                      const std::function<Result<device::Artifact>()>& get) {
  if (group == nullptr || group->size() == 1) return get();
  std::future<Result<device::Artifact>> made = std::async(std::launch::async, get);
  std::optional<Result<device::Artifact>> own;
  std::vector<std::string> said;
  auto pause = std::chrono::milliseconds(1);
  do {  // every rank runs the same number of turns: the condition is gathered
    if (!own && made.wait_for(pause) == std::future_status::ready) own = made.get();
    LOCKSTEP_TRY(said, gather(*group, !own ? kBusy : own->has_value() ? kDone : kFailed));
    pause = std::min(2 * pause, std::chrono::milliseconds(1000));
  } while (std::ranges::find(said, kBusy) != said.end());
  if (!own->has_value()) return own->error();
  const auto failed = std::ranges::find(said, kFailed);
  if (failed == said.end()) return *own;
  const auto rank = static_cast<int>(failed - said.begin());
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/backends/neuron] cannot load {}: found that rank {} has no NEFF of it, expected one "
                  "on every rank; the message of rank {} says why",
                  module, rank, rank),
      rank};
}

}  // namespace lockstep::neuron
