#include "runtime/trace/timeline.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace lockstep::trace {
namespace {

/// Appends the number of entries, then their bytes in memory layout.
template <typename T>
void append(std::string& bytes, std::span<const T> entries) {
  static_assert(std::is_trivially_copyable_v<T>);
  const uint64_t count = entries.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(entries.data()), entries.size_bytes());
}

/// Reads what `append` wrote from the front of `bytes`; returns whether it was complete.
template <typename T>
bool take(std::string_view& bytes, std::vector<T>& entries) {
  uint64_t count = 0;
  if (bytes.size() < sizeof count) return false;
  std::memcpy(&count, bytes.data(), sizeof count);
  bytes.remove_prefix(sizeof count);
  if (count > bytes.size() / sizeof(T)) return false;
  entries.resize(count);
  if (count > 0) std::memcpy(entries.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return true;
}

template <typename T, size_t N>
bool take(std::string_view& bytes, std::array<T, N>& entries) {
  std::vector<T> taken;
  if (!take(bytes, taken) || taken.size() != N) return false;
  std::ranges::copy(taken, entries.begin());
  return true;
}

int64_t count_of(TimePoint at) { return at.time_since_epoch().count(); }

nlohmann::json names_of(const RankTimeline& timeline) {
  nlohmann::json phases = nlohmann::json::array();
  for (const PhaseSpan& span : timeline.phases) phases.push_back({span.name, count_of(span.begin), count_of(span.end)});
  return {{"rank", timeline.rank},
          {"host", timeline.host},
          {"cores", timeline.cores},
          {"phases", phases},
          {"dropped_steps", timeline.dropped_steps},
          {"dropped_collectives", timeline.dropped_collectives},
          {"clock_error", timeline.clock_error.count()}};
}

void read_names(const nlohmann::json& names, RankTimeline& timeline) {
  timeline.rank = names.at("rank");
  timeline.host = names.at("host");
  timeline.cores = names.at("cores").get<std::vector<int>>();
  timeline.dropped_steps = names.at("dropped_steps");
  timeline.dropped_collectives = names.at("dropped_collectives");
  timeline.clock_error = Duration(names.at("clock_error").get<int64_t>());
  for (const auto& span : names.at("phases")) {
    timeline.phases.push_back(
        {span.at(0), TimePoint(Duration(span.at(1).get<int64_t>())), TimePoint(Duration(span.at(2).get<int64_t>()))});
  }
}

/// Phases and kinds are indices of arrays.
bool are_known(const RankTimeline& timeline) {
  const auto is_known = [](auto value, size_t count) { return static_cast<size_t>(value) < count; };
  return std::ranges::all_of(timeline.steps, [&](const auto& step) { return is_known(step.phase, kStepPhases); }) &&
         std::ranges::all_of(timeline.collectives, [&](const auto& one) {
           return is_known(one.phase, kStepPhases) && is_known(one.kind, kCollectiveKinds);
         });
}

Error not_a_timeline(size_t bytes) {
  return {ErrorKind::kInternal, "[runtime/trace] cannot read a rank's timeline: found " + std::to_string(bytes) +
                                    " bytes of another form, expected what this build writes"};
}

}  // namespace

std::string_view to_string(StepPhase phase) {
  constexpr std::string_view kNames[] = {"prefill", "decode", "outside"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "broadcast",
                                         "barrier",    "exchange",   "setup_barrier"};
  static_assert(std::size(kNames) == kCollectiveKinds);
  return kNames[static_cast<size_t>(kind)];
}

std::string pack(const RankTimeline& timeline) {
  std::string bytes;
  const std::string names = names_of(timeline).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  append(bytes, std::span<const char>(names));
  append(bytes, std::span<const StepTimes>(timeline.steps));
  append(bytes, std::span<const CollectiveTimes>(timeline.collectives));
  append(bytes, std::span<const StepTotals>(timeline.step_totals));
  append(bytes, std::span<const CollectiveTotals>(timeline.collective_totals));
  append(bytes, std::span<const Ping>(timeline.pings_at_begin));
  append(bytes, std::span<const Ping>(timeline.pings_at_end));
  return bytes;
}

Result<RankTimeline> unpack_timeline(std::string_view bytes) {
  const size_t size = bytes.size();
  RankTimeline timeline;
  std::vector<char> names;
  const bool whole = take(bytes, names) && take(bytes, timeline.steps) && take(bytes, timeline.collectives) &&
                     take(bytes, timeline.step_totals) && take(bytes, timeline.collective_totals) &&
                     take(bytes, timeline.pings_at_begin) && take(bytes, timeline.pings_at_end) && bytes.empty();
  if (!whole || !are_known(timeline)) return not_a_timeline(size);
  try {
    read_names(nlohmann::json::parse(names), timeline);
  } catch (const nlohmann::json::exception&) {
    return not_a_timeline(size);
  }
  return timeline;
}

}  // namespace lockstep::trace
