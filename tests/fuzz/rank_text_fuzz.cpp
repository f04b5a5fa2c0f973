// Fuzzes what ranks exchange at a start and at its end: places, networks, timelines. It is refused, or read exactly.
//
// Input: a byte that chooses the kind, and the text; that of several ranks has NUL bytes between them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/trace/timeline.h"
#include "tests/fuzz/input_parts.h"
#include "transport/exchange.h"
#include "transport/network.h"

using namespace lockstep;

namespace {

std::vector<std::string> texts_of(std::string_view text) {
  const auto parts = fuzz::parts_of(text, '\0');
  return {parts.begin(), parts.end()};
}

void check_places(std::string_view text) {
  const std::vector<std::string> texts = texts_of(text);
  const auto places = transport::places_from(texts);
  if (!places.has_value()) {
    LOCKSTEP_CHECK(places.error().kind == ErrorKind::kFailedPrecondition, places.error().message);
    return;
  }
  LOCKSTEP_CHECK(places.value().size() == texts.size(), places.value().size());
  for (const transport::RankPlace& place : places.value()) {
    LOCKSTEP_CHECK(place.local_rank >= 0 && place.local_rank < place.local_size, place.local_rank, place.local_size);
    LOCKSTEP_CHECK(place.node >= 0 && place.node < std::ssize(texts), place.node);
    for (const int core : place.cores) LOCKSTEP_CHECK(core >= 0, core);
    LOCKSTEP_CHECK(place.hardware_threads.empty() || place.hardware_threads.size() == place.cores.size());
  }
}

void check_networks(std::string_view text) {
  const std::vector<std::string> texts = texts_of(text);
  std::vector<transport::HostNetwork> hosts;
  for (const std::string& line : texts) {
    const auto interfaces = transport::parse_interfaces(line);
    if (!interfaces.has_value()) {
      LOCKSTEP_CHECK(interfaces.error().kind == ErrorKind::kFailedPrecondition, interfaces.error().message);
      return;
    }
    const auto again = transport::parse_interfaces(transport::to_line(interfaces.value()));
    LOCKSTEP_CHECK(again.has_value() && again.value() == interfaces.value(), line);
    hosts.push_back({"host", interfaces.value()});
  }
  if (hosts.empty()) return;
  for (const char* wanted : {"", "eth0", "10.1.0.5", "10.1.0.0/16"}) {
    const auto chosen =
        transport::choose_network(hosts, *wanted == 0 ? std::nullopt : std::optional<std::string>(wanted));
    if (chosen.has_value()) LOCKSTEP_CHECK(chosen.value().size() == hosts.size(), chosen.value().size());
  }
}

void check_timeline(std::string_view bytes) {
  auto timeline = trace::unpack_timeline(bytes);
  if (!timeline.has_value()) return;
  const auto again = trace::unpack_timeline(trace::pack(timeline.value()));
  LOCKSTEP_CHECK(again.has_value() && again.value() == timeline.value());
  for (const trace::StepTimes& step : timeline.value().steps) static_cast<void>(to_string(step.phase));
  for (const trace::CollectiveTimes& one : timeline.value().collectives) static_cast<void>(to_string(one.kind));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: check_places(text); break;
    case 1: check_networks(text); break;
    default: check_timeline(text); break;
  }
  return 0;
}
