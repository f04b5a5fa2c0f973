#include "launcher/measure/doctor/rank_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/drivers.h"
#include "engine/group/agreement.h"
#include "engine/group/communicators.h"
#include "runtime/process/core_watch.h"
#include "runtime/topology/discovery.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kNoLimit = int64_t{1} << 60;  // control groups of version 1 use about this value for no limit

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

template <typename T>
void keep_least(std::optional<T>& least, const std::optional<T>& value) {
  if (value && (!least || *value < *least)) least = value;
}

/// The bytes of a line like "MemAvailable:  16384 kB".
int64_t memory_line(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    int64_t kilobytes = 0;
    std::istringstream(line.substr(name.size())) >> kilobytes;
    return kilobytes << 10;
  }
  return -1;
}

/// The lowest limits of this process's control groups, version 2 or 1.
void read_control_groups(RankFacts& facts) {
  const fs::path root = "/sys/fs/cgroup";
  fs::path own;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) own = line.substr(4);
  }
  for (fs::path group = root / own;; group = group.parent_path()) {
    keep_least(facts.core_limit, parse_cpu_max(first_line(group / "cpu.max")));
    keep_least(facts.memory_limit, parse_memory_max(first_line(group / "memory.max")));
    if (group == root || !group.has_relative_path()) break;
  }
  const std::string quota = first_line(root / "cpu/cpu.cfs_quota_us");
  if (!quota.empty() && !quota.starts_with('-')) {
    keep_least(facts.core_limit, parse_cpu_max(quota + " " + first_line(root / "cpu/cpu.cfs_period_us")));
  }
  keep_least(facts.memory_limit, parse_memory_max(first_line(root / "memory/memory.limit_in_bytes")));
}

int64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
}

int count_files(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_numbered =
        name.size() > prefix.size() && std::isdigit(static_cast<unsigned char>(name[prefix.size()]));
    if (name.starts_with(prefix) && (prefix.empty() || is_numbered)) ++count;
  }
  return count;
}

/// Whether the JSON library converts `json` to T exactly, or to the nearest number, without an exception.
template <typename T>
bool holds(const Json& json) {
  if constexpr (std::is_same_v<T, std::string>) {
    return json.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return json.is_boolean();
  } else if constexpr (std::is_floating_point_v<T>) {
    return json.is_number();
  } else {
    return json.is_number_integer();
  }
}

template <typename T>
void get(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found != json.end() && holds<T>(*found)) value = found->get<T>();
}

void get(const Json& json, const char* key, std::map<std::string, std::string>& values) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) values[name] = value.get<std::string>();
  }
}

template <typename T>
void get(const Json& json, const char* key, std::optional<T>& value) {
  const auto found = json.find(key);
  if (found != json.end() && holds<T>(*found)) value = found->get<T>();
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto quota = parse_number<int64_t>(text.substr(0, space));
  const auto period = parse_number<int64_t>(text.substr(space + 1));
  if (!quota || !period || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<int64_t> parse_memory_max(std::string_view text) {
  const auto bytes = parse_number<int64_t>(text);
  return bytes && *bytes < kNoLimit ? bytes : std::nullopt;
}

RankFacts own_facts(const transport::EnvironmentLookup& lookup) {
  RankFacts facts;
  facts.program = group::statement_of_program();
  const auto machine = topology::read_machine(topology::Devices::kNone);
  facts.machine = machine.has_value() ? topology::to_string(machine.value()) : machine.error().message;
  if (machine.has_value() && machine.value().memory() > Bytes(0)) facts.memory_bytes = machine.value().memory().value;
  facts.available_bytes = memory_line("MemAvailable:");
  read_control_groups(facts);
  facts.core_pressure = process::core_pressure();
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.has_infiniband = count_files("/sys/class/infiniband", "") > 0;
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) == 0) {
    facts.shm_bytes = static_cast<int64_t>(space.f_blocks * space.f_frsize);
    facts.shm_free = static_cast<int64_t>(space.f_bavail * space.f_frsize);
  }
  for (const device::BackendDriver* driver : engine::drivers()) {
    const device::DeviceSigns signs = driver->signs();
    if (signs.files.empty()) continue;
    if (const auto value = lookup(signs.variable)) facts.visible[std::string(signs.variable)] = *value;
    if (const int count = count_files("/dev", signs.files); count > 0) {
      facts.installed[std::string(driver->name())] = count;
    }
    if (!driver->available().has_value()) continue;
    const std::string name(driver->name());
    const auto lines = driver->describe_devices();
    if (lines.has_value() && !lines.value().empty()) {
      facts.devices[name] = lines.value();
      facts.devices[name].push_back(group::describe_device_connections());
    }
    // Without devices in the system nobody misses the driver.
    if (!lines.has_value() && facts.installed.contains(name)) facts.device_errors[name] = lines.error().message;
  }
  return facts;
}

std::string to_text(const RankFacts& facts) {
  Json json = {{"program", facts.program},
               {"machine", facts.machine},
               {"memory", facts.memory_bytes},
               {"available", facts.available_bytes},
               {"files", facts.open_files},
               {"locked", facts.locked_bytes},
               {"infiniband", facts.has_infiniband},
               {"shm", facts.shm_bytes},
               {"shm_free", facts.shm_free},
               {"visible", facts.visible},
               {"installed", facts.installed},
               {"devices", facts.devices},
               {"device_errors", facts.device_errors}};
  if (facts.memory_limit) json["memory_limit"] = *facts.memory_limit;
  if (facts.core_limit) json["core_limit"] = *facts.core_limit;
  if (facts.core_pressure) json["core_pressure"] = *facts.core_pressure;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RankFacts> parse_facts(const std::string& text, int rank) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[doctor] cannot read what rank {} says of itself: found '{}', expected a JSON object; "
                             "start the same program on every rank",
                             rank, text),
                 rank};
  }
  RankFacts facts;
  get(json, "program", facts.program);
  get(json, "machine", facts.machine);
  get(json, "memory", facts.memory_bytes);
  get(json, "available", facts.available_bytes);
  get(json, "memory_limit", facts.memory_limit);
  get(json, "core_limit", facts.core_limit);
  get(json, "core_pressure", facts.core_pressure);
  get(json, "files", facts.open_files);
  get(json, "locked", facts.locked_bytes);
  get(json, "infiniband", facts.has_infiniband);
  get(json, "shm", facts.shm_bytes);
  get(json, "shm_free", facts.shm_free);
  if (const auto installed = json.find("installed"); installed != json.end() && installed->is_object()) {
    for (const auto& [name, count] : installed->items()) {
      if (count.is_number_integer()) facts.installed[name] = count.get<int>();
    }
  }
  get(json, "visible", facts.visible);
  get(json, "device_errors", facts.device_errors);
  if (const auto devices = json.find("devices"); devices != json.end() && devices->is_object()) {
    for (const auto& [name, lines] : devices->items()) {
      for (const Json& line : lines) {
        if (line.is_string()) facts.devices[name].push_back(line.get<std::string>());
      }
    }
  }
  return facts;
}

}  // namespace lockstep::launcher
