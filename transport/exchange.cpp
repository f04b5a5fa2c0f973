#include "transport/exchange.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/topology/discovery.h"

namespace lockstep::transport {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

/// The running kernel's id, which distinguishes machines with equal names.
std::string kernel_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// The file system of /dev/shm. Ranks with different ones cannot share memory by name.
std::string memory_id() {
  struct stat status {};
  if (stat("/dev/shm", &status) != 0) return "";
  return fmt::format("{:x}:{:x}", status.st_dev, status.st_ino);
}

std::string_view take_until(std::string_view& text, char mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::optional<int> parse_number(std::string_view text) {
  int number = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = status == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

/// "5" or "1/9": core 1, of which the process may use the hardware thread 9.
std::optional<topology::CoreThread> parse_core(std::string_view text) {
  const std::string_view whole = text;
  const std::optional<int> core = parse_number(take_until(text, '/'));
  const std::optional<int> thread = text.empty() ? core : parse_number(text);
  if (!core || !thread || whole.ends_with('/')) return std::nullopt;
  return topology::CoreThread{*core, *thread};
}

Result<OwnPlace> parse_place(std::string_view text, size_t rank) {
  const Error unreadable{
      ErrorKind::kFailedPrecondition,
      fmt::format("[transport] cannot read where rank {} runs: found '{}', expected host, kernel, memory and "
                  "core numbers; start the same program on every rank",
                  rank, text)};
  OwnPlace place;
  for (std::string* line : {&place.host, &place.kernel, &place.memory}) *line = take_until(text, '\n');
  if (text.empty()) return place;
  const std::optional<int> count = parse_number(take_until(text, ','));
  if (!count) return unreadable;
  place.host_cores = *count;
  while (!text.empty()) {
    const auto core = parse_core(take_until(text, ','));
    if (!core) return unreadable;
    place.cores.push_back(*core);
  }
  return place;
}

/// The cores of `place`, and which of their hardware threads it may use where that is another than the core's name.
void set_cores(RankPlace& place, std::span<const topology::CoreThread> cores) {
  for (const auto& [core, thread] : cores) {
    place.cores.push_back(core);
    place.hardware_threads.push_back(thread);
  }
  if (place.hardware_threads == place.cores) place.hardware_threads.clear();
}

class CommunicatorBootstrap final : public Bootstrap {
 public:
  CommunicatorBootstrap(std::unique_ptr<device::Communicator> communicator, std::string name,
                        std::function<OwnPlace()> place)
      : communicator_(std::move(communicator)), name_(std::move(name)), place_(std::move(place)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  std::string name() const override { return name_; }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    return exchange_over(*communicator_, mine);
  }
  Result<void> barrier() override { return communicator_->barrier(device::Stream::host()); }
  Result<std::vector<RankPlace>> places() override {
    if (places_.empty()) {
      LOCKSTEP_TRY(places_, exchange_places(*this, place_()));
    }
    return places_;
  }
  Result<void> finish() override { return barrier(); }

 private:
  std::unique_ptr<device::Communicator> communicator_;
  std::string name_;
  std::function<OwnPlace()> place_;
  std::vector<RankPlace> places_;
};

}  // namespace

Result<std::vector<std::string>> exchange_over(device::Communicator& communicator, std::string_view mine) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const auto own_size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(ranks);
  const std::vector<int64_t> counts(ranks, sizeof(int64_t));
  LOCKSTEP_TRY_VOID(communicator.all_gather(std::as_bytes(std::span(&own_size, 1)), counts,
                                            std::as_writable_bytes(std::span(sizes)), device::Stream::host()));
  size_t total = 0;
  for (const int64_t size : sizes) total += static_cast<size_t>(size);
  std::string joined(total, '\0');
  LOCKSTEP_TRY_VOID(communicator.all_gather(std::as_bytes(std::span(mine)), sizes,
                                            std::as_writable_bytes(std::span(joined)), device::Stream::host()));
  std::vector<std::string> texts;
  size_t begin = 0;
  for (const int64_t size : sizes) {
    texts.push_back(joined.substr(begin, static_cast<size_t>(size)));
    begin += static_cast<size_t>(size);
  }
  return texts;
}

std::string to_text(const OwnPlace& place) {
  std::string text = fmt::format("{}\n{}\n{}\n{}", place.host, place.kernel, place.memory, place.host_cores);
  for (const auto& [core, thread] : place.cores) {
    text += fmt::format(",{}", core);
    if (thread != core) text += fmt::format("/{}", thread);
  }
  return text;
}

Result<std::vector<RankPlace>> places_from(const std::vector<std::string>& texts) {
  std::vector<RankPlace> places;
  std::map<std::tuple<std::string, std::string, std::string>, int> node_of_host;
  std::vector<int> ranks_of_node;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    LOCKSTEP_TRY(OwnPlace own, parse_place(texts[rank], rank));
    const auto next_node = static_cast<int>(node_of_host.size());
    const int node = node_of_host.try_emplace({own.host, own.kernel, own.memory}, next_node).first->second;
    if (node == next_node) ranks_of_node.push_back(0);
    places.push_back({.rank = static_cast<int>(rank),
                      .host = std::move(own.host),
                      .local_rank = ranks_of_node[node]++,
                      .local_size = 0,
                      .cores = {},
                      .node = node,
                      .machine = std::move(own.kernel),
                      .host_cores = own.host_cores});
    set_cores(places.back(), own.cores);
  }
  for (RankPlace& place : places) place.local_size = ranks_of_node[place.node];
  return places;
}

OwnPlace own_place() {
  const auto found = topology::read_machine(topology::Devices::kNone);
  // Of an unknown machine every hardware thread counts as a core; doctor reports the reason.
  const topology::Machine machine = found.has_value() ? found.value() : topology::Machine();
  return {.host = host_name(),
          .kernel = kernel_id(),
          .memory = memory_id(),
          .cores = machine.cores_of(own_hardware_threads()),
          .host_cores = static_cast<int>(machine.cores_of(available_hardware_threads()).size())};
}

Result<std::vector<RankPlace>> exchange_places(Bootstrap& bootstrap, const OwnPlace& own) {
  LOCKSTEP_TRY(const std::vector<std::string> texts, bootstrap.exchange(to_text(own)));
  return places_from(texts);
}

std::unique_ptr<Bootstrap> make_bootstrap_over(std::unique_ptr<device::Communicator> communicator, std::string name,
                                               std::function<OwnPlace()> place) {
  return std::make_unique<CommunicatorBootstrap>(std::move(communicator), std::move(name), std::move(place));
}

}  // namespace lockstep::transport
