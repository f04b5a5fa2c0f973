#include "transport/choosing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <sstream>

#include "runtime/core/check.h"
#include "transport/collective_probe.h"
#include "transport/operation_log.h"

namespace lockstep::transport {
namespace {

using Candidates = std::vector<std::unique_ptr<device::Communicator>>;

/// Upper bounds of the size classes in bytes; the last class also covers everything above.
constexpr std::array<int64_t, 7> kClasses = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};

/// Of these the first is a warm-up. Large messages vary little, so few rounds suffice.
int rounds_of(int64_t bytes) { return bytes <= (1 << 16) ? 8 : 4; }

size_t class_of(uint64_t bytes) {
  const auto found = std::lower_bound(kClasses.begin(), kClasses.end(), static_cast<int64_t>(bytes));
  return std::min<size_t>(static_cast<size_t>(found - kClasses.begin()), kClasses.size() - 1);
}

/// The choice for each class: an index into the candidates, and its median time.
struct Decision {
  std::array<int, kClasses.size()> way{};
  std::array<double, kClasses.size()> microseconds{};
};

class ChoosingCommunicator final : public device::Communicator {
 public:
  ChoosingCommunicator(Candidates ways, const Decision& decision) : ways_(std::move(ways)) {
    for (size_t i = 0; i < kClasses.size(); ++i) way_of_class_[i] = ways_[decision.way[i]].get();
  }

  int rank() const override { return ways_.front()->rank(); }
  int size() const override { return ways_.front()->size(); }
  std::string name() const override {
    std::vector<std::string> names;
    for (const auto& way : ways_) names.push_back(way->name());
    return fmt::format("choosing ({})", fmt::join(names, ", "));
  }

  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override {
    return run("all_reduce", dst.size_bytes(), roots.size_bytes(),
               [&](Communicator& way) { return way.all_reduce(sum, roots, dst, stream); });
  }
  std::span<float> place_for_roots(const device::TreeSum& sum, size_t elements) override {
    return way_of_class_[class_of(elements * sizeof(float))]->place_for_roots(sum, elements);
  }
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override {
    return run("all_gather", dst.size(), src.size(),
               [&](Communicator& way) { return way.all_gather(src, counts, dst, stream); });
  }
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override {
    return run("broadcast", bytes.size(), root == rank() ? bytes.size() : 0,
               [&](Communicator& way) { return way.broadcast(bytes, root, stream); });
  }
  Result<void> barrier(device::Stream stream) override {
    return run("barrier", 0, 0, [&](Communicator& way) { return way.barrier(stream); });
  }
  device::OperationMark last_operation() const override { return log_.last(); }

 private:
  /// `bytes` is the size of the result, which is the same on every rank, so every rank uses the same candidate.
  template <typename Call>
  Result<void> run(const char* operation, uint64_t bytes, uint64_t own_bytes, Call call) {
    if (failure_) return *failure_;
    log_.enter(operation, own_bytes);
    Result<void> done = call(*way_of_class_[class_of(bytes)]);
    if (!done.has_value()) failure_ = done.error();
    return done;
  }

  const Candidates ways_;
  std::array<device::Communicator*, kClasses.size()> way_of_class_{};
  OperationLog log_;
  std::optional<Error> failure_;  // the first failure of any candidate; the others are then out of step
};

/// The timed work: the two collectives of a step, one after the other.
constexpr std::array kTimed = {Collective::kAllReduce, Collective::kAllGather};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// This rank's choice. Candidates alternate, so a disturbance of the machine affects all of them.
Result<Decision> measure(const Candidates& ways, const Clock& clock) {
  CollectiveProbe probe(ways.front()->size(), kClasses.back(), clock);
  Decision decision;
  for (size_t i = 0; i < kClasses.size(); ++i) {
    std::vector<std::vector<double>> seconds(ways.size());
    for (int round = 0; round < rounds_of(kClasses[i]); ++round) {
      for (size_t way = 0; way < ways.size(); ++way) {
        LOCKSTEP_TRY(const double taken, probe.time(*ways[way], kTimed, kClasses[i], timed_together(kClasses[i])));
        if (round > 0) seconds[way].push_back(taken);
      }
    }
    double best = std::numeric_limits<double>::infinity();
    for (size_t way = 0; way < ways.size(); ++way) {
      const double taken = median(seconds[way]);
      if (taken >= best) continue;
      best = taken;
      decision.way[i] = static_cast<int>(way);
      decision.microseconds[i] = taken * 1e6;
    }
  }
  return decision;
}

/// Rank 0's choice, on every rank.
Result<Decision> take_word_of_rank_0(Bootstrap& bootstrap, const Decision& own, size_t ways) {
  std::string text;
  for (size_t i = 0; i < kClasses.size(); ++i) text += fmt::format("{} {:.3f} ", own.way[i], own.microseconds[i]);
  LOCKSTEP_TRY(const std::vector<std::string> texts, bootstrap.exchange(text));
  Decision decision;
  std::istringstream words(texts.front());
  for (size_t i = 0; i < kClasses.size(); ++i) {
    words >> decision.way[i] >> decision.microseconds[i];
    const bool valid = words && 0 <= decision.way[i] && decision.way[i] < static_cast<int>(ways);
    if (!valid) {
      return Error{
          ErrorKind::kFailedPrecondition,
          fmt::format("[transport] rank {}: cannot read rank 0's choice of communicators: found '{}', expected "
                      "a way and a time per message size; start the same program on every rank",
                      bootstrap.rank(), texts.front())};
    }
  }
  return decision;
}

Result<void> agree_on_names(Bootstrap& bootstrap, const Candidates& candidates) {
  std::string names;
  for (const auto& candidate : candidates) names += candidate->name() + "\n";
  return agree(bootstrap, "the communicators to choose from", names);
}

}  // namespace

Result<std::unique_ptr<device::Communicator>> choose_communicator(
    Bootstrap& bootstrap, std::vector<std::unique_ptr<device::Communicator>> candidates, const WaitOptions& wait,
    std::vector<Choice>* choices) {
  LOCKSTEP_CHECK(!candidates.empty());
  for (const auto& candidate : candidates) {
    LOCKSTEP_CHECK(candidate->size() == bootstrap.size() && candidate->rank() == bootstrap.rank(), candidate->name());
  }
  LOCKSTEP_TRY_VOID(agree_on_names(bootstrap, candidates));
  LOCKSTEP_TRY(const Decision own, measure(candidates, *wait.clock));
  LOCKSTEP_TRY(const Decision decision, take_word_of_rank_0(bootstrap, own, candidates.size()));
  if (choices != nullptr) {
    choices->clear();
    for (size_t i = 0; i < kClasses.size(); ++i) {
      choices->push_back({kClasses[i], candidates[decision.way[i]]->name(), decision.microseconds[i]});
    }
  }
  if (candidates.size() == 1) return std::move(candidates.front());
  return std::make_unique<ChoosingCommunicator>(std::move(candidates), decision);
}

}  // namespace lockstep::transport
