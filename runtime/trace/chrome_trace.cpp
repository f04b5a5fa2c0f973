#include "runtime/trace/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/trace/time_split.h"

namespace lockstep::trace {
namespace {

enum Thread : int { kExecutor = 1, kCollectives = 2, kRequests = 3, kDevice = 4 };

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The events of one file, one per line.
class Events {
 public:
  explicit Events(TimePoint origin) : origin_(origin) {}

  void name_process(const RankTimeline& rank) {
    add(R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})", rank.rank,
        json_string(fmt::format("rank {} ({})", rank.rank, rank.host)));
    add(R"({{"ph":"M","pid":{0},"tid":0,"name":"process_sort_index","args":{{"sort_index":{0}}}}})", rank.rank);
  }
  void name_thread(int rank, Thread thread, std::string_view name) {
    add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", rank, int{thread},
        json_string(name));
    add(R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index","args":{{"sort_index":{1}}}}})", rank,
        int{thread});
  }
  /// `args` is the inside of a JSON object.
  void slice(int rank, Thread thread, std::string_view category, std::string_view name, TimePoint begin, TimePoint end,
             std::string_view args = "") {
    add(R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"ts":{},"dur":{},"args":{{{}}}}})", rank, int{thread},
        category, json_string(name), since_origin(begin), microseconds(std::max(end, begin) - begin), args);
  }
  /// Viewers show `name` and `series` as one name.
  void counter(int rank, std::string_view name, std::string_view series, TimePoint at, int64_t value) {
    add(R"({{"ph":"C","pid":{},"tid":0,"name":{},"ts":{},"args":{{{}:{}}}}})", rank, json_string(name),
        since_origin(at), json_string(series), value);
  }
  /// Requests overlap, so they are asynchronous events: start, instants and end with one id. A local id: Perfetto shows
  /// global ones outside their process.
  void request(char step, const RequestSpan& span, std::string_view name, TimePoint at, std::string_view args = "") {
    add(R"({{"ph":"{}","pid":0,"tid":{},"cat":"request","id2":{{"local":"{}"}},"name":{},"ts":{},"args":{{{}}}}})",
        step, int{kRequests}, span.request, json_string(name), since_origin(at), args);
  }

  std::string text() && { return std::move(text_); }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += text_.empty() ? "\n" : ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  /// Exact: nanoseconds are three decimals.
  static std::string microseconds(Duration duration) {
    return fmt::format("{}.{:03}", duration.count() / 1000, duration.count() % 1000);
  }
  std::string since_origin(TimePoint at) const { return microseconds(std::max(at, origin_) - origin_); }

  const TimePoint origin_;
  std::string text_;
};

TimePoint earliest(const RunTrace& run) {
  TimePoint first = TimePoint::max();
  for (const RankTimeline& rank : run.ranks) {
    for (const PhaseSpan& each : rank.phases) first = std::min(first, each.begin);
    if (!rank.steps.empty()) first = std::min(first, rank.steps.front().begin);
    if (!rank.collectives.empty()) first = std::min(first, rank.collectives.front().enter);
  }
  return first == TimePoint::max() ? TimePoint{} : first;
}

/// The steps of one schedule are consecutive: it lasts from the start of the first to the end of the last.
void add_schedules(const RankTimeline& rank, Events& events) {
  for (size_t first = 0; first < rank.steps.size();) {
    size_t end = first;
    while (end < rank.steps.size() && rank.steps[end].schedule == rank.steps[first].schedule) ++end;
    events.slice(rank.rank, kExecutor, "schedule", fmt::format("schedule {}", rank.steps[first].schedule),
                 rank.steps[first].begin, rank.steps[end - 1].end, fmt::format("\"steps\":{}", end - first));
    first = end;
  }
}

void add_steps(const RankTimeline& rank, Events& events) {
  for (const StepTimes& each : rank.steps) {
    events.slice(rank.rank, kExecutor, "step", to_string(each.phase), each.begin, each.end,
                 fmt::format(R"("rows":{},"slots":{},"tokens":{},"schedule":{},"step":{})", each.rows, each.slots,
                             each.tokens, each.schedule, each.step));
    if (rank.rank != 0) continue;
    events.counter(0, "tokens", "of a step", each.begin, each.tokens);
    events.counter(0, "tokens", "of a step", each.end, 0);
  }
}

/// The device's part of each step. Its clock gives the length; the host has seen its end.
void add_device_parts(const RankTimeline& rank, Events& events) {
  const auto is_timed = [](const StepTimes& step) { return step.on_device.device > Duration::zero(); };
  if (std::ranges::none_of(rank.steps, is_timed)) return;
  events.name_thread(rank.rank, kDevice, "device");
  for (const StepTimes& each : rank.steps) {
    if (!is_timed(each)) continue;
    const TimePoint end = each.end - each.on_device.after;
    events.slice(rank.rank, kDevice, "device", to_string(each.phase), std::max(each.begin, end - each.on_device.device),
                 end, fmt::format(R"("schedule":{},"step":{})", each.schedule, each.step));
  }
}

void add_collectives(const RankTimeline& rank, std::span<const TimePoint> last, Events& events) {
  for (size_t i = 0; i < rank.collectives.size(); ++i) {
    const CollectiveTimes& each = rank.collectives[i];
    const std::string_view name = to_string(each.kind);
    const TimePoint there = i < last.size() ? all_there(each, last[i]) : each.enter;
    const std::string args =
        fmt::format(R"("sequence":{},"bytes":{},"phase":"{}")", each.sequence, each.bytes, to_string(each.phase));
    if (there > each.enter) {
      events.slice(rank.rank, kCollectives, "waiting", "waiting", each.enter, there,
                   fmt::format(R"("for":"{}","sequence":{},"phase":"{}")", name, each.sequence, to_string(each.phase)));
    }
    events.slice(rank.rank, kCollectives, "communication", name, there, each.leave, args);
  }
}

void add_requests(const std::vector<RequestSpan>& requests, Events& events) {
  if (requests.empty()) return;
  events.name_thread(0, kRequests, "requests");
  for (const RequestSpan& each : requests) {
    // One name: Perfetto has a track for every name, and for as many requests of a name as overlap.
    events.request('b', each, "request", each.begin, fmt::format(R"("request":{})", each.request));
    if (each.first_token) events.request('n', each, "first token", *each.first_token);
    events.request('e', each, "request", each.end,
                   fmt::format(R"("tokens":{},"reason":{})", each.tokens, json_string(each.reason)));
  }
}

using OrderedJson = nlohmann::ordered_json;

OrderedJson facts_of(const RunTrace& run) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, text] : run.facts) json[name] = text;
  return json;
}

OrderedJson facts_of(const RankTimeline& rank) {
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"cores", rank.cores},
          {"clock_error_us", to_seconds(rank.clock_error) * 1e6},
          {"dropped_steps", rank.dropped_steps},
          {"dropped_collectives", rank.dropped_collectives}};
}

std::string json_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The phases; `run` carries the facts of the run and of its rank, because Perfetto does not read `otherData`.
void add_phases(const RunTrace& run, const RankTimeline& rank, Events& events) {
  for (const PhaseSpan& each : rank.phases) {
    std::string args;
    if (each.name == "run") {
      OrderedJson facts = facts_of(run);
      facts.update(facts_of(rank));
      args = json_text(facts);
      args = args.substr(1, args.size() - 2);  // without the braces
    }
    events.slice(rank.rank, kExecutor, "phase", each.name, each.begin, each.end, args);
  }
}

std::string metadata(const RunTrace& run) {
  OrderedJson json = facts_of(run);
  json["ranks"] = OrderedJson::array();
  for (const RankTimeline& rank : run.ranks) json["ranks"].push_back(facts_of(rank));
  return json_text(json);
}

}  // namespace

std::string to_chrome_json(const RunTrace& run) {
  Events events(earliest(run));
  const std::vector<TimePoint> last = last_entries(run.ranks);
  for (const RankTimeline& rank : run.ranks) {
    events.name_process(rank);
    events.name_thread(rank.rank, kExecutor, "executor");
    events.name_thread(rank.rank, kCollectives, "collectives");
    add_phases(run, rank, events);
    add_schedules(rank, events);
    add_steps(rank, events);
    add_device_parts(rank, events);
    add_collectives(rank, last, events);
  }
  add_requests(run.requests, events);
  return R"({"displayTimeUnit":"ms","otherData":)" + metadata(run) + ",\"traceEvents\":[" + std::move(events).text() +
         "\n]}\n";
}

}  // namespace lockstep::trace
