#include "engine/inspect/machine_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/inspect/measured_rates.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/json_depth.h"
#include "runtime/core/short_number.h"
#include "runtime/topology/discovery.h"
#include "transport/bootstrap.h"

namespace lockstep::inspect {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;

// A rank as an average server socket, with shared memory between the ranks of a host.
constexpr cost::Rates kAssumedRank{.read_bytes_per_s = 100e9, .flops_per_s = 2000e9};
constexpr double kAssumedLatency = 2e-6;
constexpr double kAssumedLinkBandwidth = 5e9;

std::string in_words(const cost::Rates& rates) {
  return fmt::format("{} GB/s and {} GFLOP/s", short_number(rates.read_bytes_per_s / kGiga, 4),
                     short_number(rates.flops_per_s / kGiga, 4));
}

Result<void> measure_limits(const MachineOptions& options, probe::Precision precision, const Clock& clock,
                            MachineDescription& machine) {
  const auto found = topology::read_machine(topology::Devices::kNone);
  const topology::Machine host = found.has_value() ? found.value() : topology::Machine();
  const int cores = std::max(1, static_cast<int>(host.cores_of(transport::own_hardware_threads()).size()));
  LOCKSTEP_TRY(machine.limits.host, measure(cores, precision, options.probe_bytes, clock));
  machine.words.push_back(
      fmt::format("this machine's {} core(s) together: {}, measured", cores, in_words(machine.limits.host)));
  if (!options.rank_cores) {
    machine.words.push_back("the ranks divide these cores: more of them add memory and messages, not speed");
    return ok();
  }
  machine.limits.rank = machine.limits.host;
  if (*options.rank_cores < cores) {
    LOCKSTEP_TRY(machine.limits.rank, measure(*options.rank_cores, precision, options.probe_bytes, clock));
  }
  machine.words.push_back(
      fmt::format("a rank of {} core(s): {}, measured", *options.rank_cores, in_words(machine.limits.rank)));
  return ok();
}

Result<void> read_probe(const MachineOptions& options, MachineDescription& machine) {
  LOCKSTEP_TRY(const std::string text, read_text_file(*options.probe, "--probe"));
  LOCKSTEP_TRY(const RecordedProbe recorded, parse_probe(text, options.probe->string()));
  // Devices exchange by their own links, not by what was timed between the hosts' ranks.
  if (recorded.ranks > 1 && !recorded.collectives.empty() && !recorded.of_devices) {
    machine.limits.link = cost::link_from(recorded.collectives, recorded.ranks);
    machine.words.push_back(fmt::format("messages: as recorded between {} ranks", recorded.ranks));
  }
  if (recorded.of_devices) {
    machine.limits.rank = {recorded.rates.read_bytes_per_s / recorded.ranks,
                           recorded.rates.flops_per_s / recorded.ranks};
    machine.words.push_back(fmt::format("a rank's device: {}, recorded", in_words(machine.limits.rank)));
    return ok();
  }
  if (!options.rank_cores) {
    machine.limits.host = recorded.rates;
    machine.words.push_back(
        fmt::format("{} core(s) together: {}, recorded; the ranks divide them: more of them add memory and messages, "
                    "not speed",
                    recorded.cores, in_words(recorded.rates)));
    return ok();
  }
  const double share = static_cast<double>(*options.rank_cores) / static_cast<double>(recorded.cores);
  machine.limits.rank = {recorded.rates.read_bytes_per_s * share, recorded.rates.flops_per_s * share};
  machine.words.push_back(fmt::format("a rank of {} core(s): {}, each as fast as a core of those {} recorded",
                                      *options.rank_cores, in_words(machine.limits.rank), recorded.cores));
  return ok();
}

cost::LinkRow row_of(const device::DeviceLink& link) {
  return {.latency_s = link.latency_s, .bytes_per_s = link.bytes_per_s};
}

/// What is published of the ranks' devices, where nothing was measured.
void add_published(const device::PublishedLimits& published, const MachineOptions& options,
                   MachineDescription& machine) {
  if (!options.ranks_per_host) machine.limits.ranks_per_host = published.devices_per_host;
  machine.limits.link = {.rows = {row_of(published.within_host)}};
  machine.limits.between_hosts = {.rows = {row_of(published.between_hosts)}};
  if (options.measure || options.probe) return;
  machine.limits.rank = {published.read_bytes_per_s, published.flops_per_s};
  machine.words.push_back(fmt::format("a rank's device: {}, published", in_words(machine.limits.rank)));
}

/// Replaces measured values by those that the user gave.
void add_given(const MachineOptions& options, MachineDescription& machine) {
  const auto set = [&](const std::optional<double>& given, double unit, double& limit, std::string_view what) {
    if (!given) return;
    limit = *given * unit;
    machine.words.push_back(fmt::format("{} {}, given", what, short_number(*given, 4)));
  };
  cost::MachineLimits& limits = machine.limits;
  set(options.bandwidth, kGiga, limits.rank.read_bytes_per_s, "GB/s of a rank:");
  set(options.flops, kGiga, limits.rank.flops_per_s, "GFLOP/s of a rank:");
  set(options.host_bandwidth, kGiga, limits.host.read_bytes_per_s, "GB/s of a host:");
  set(options.host_flops, kGiga, limits.host.flops_per_s, "GFLOP/s of a host:");
  for (cost::LinkRow& row : limits.link.rows) {
    if (options.link_latency_us) row.latency_s = *options.link_latency_us * 1e-6;
    if (options.link_bandwidth) row.bytes_per_s = *options.link_bandwidth * kGiga;
  }
  if (!options.host_link_latency_us && !options.host_link_bandwidth) return;
  if (limits.between_hosts.rows.empty()) limits.between_hosts = limits.link;
  for (cost::LinkRow& row : limits.between_hosts.rows) {
    if (options.host_link_latency_us) row.latency_s = *options.host_link_latency_us * 1e-6;
    if (options.host_link_bandwidth) row.bytes_per_s = *options.host_link_bandwidth * kGiga;
  }
}

std::string in_words(const cost::Link& link, bool latency_is_given, bool bandwidth_is_given, bool is_published) {
  const cost::LinkRow& row = link.rows.front();
  return fmt::format("{:.4g} us{} and {:.4g} GB/s{}", row.latency_s * 1e6, latency_is_given ? "" : " (assumed)",
                     row.bytes_per_s / kGiga,
                     bandwidth_is_given ? ""
                     : is_published     ? " (published)"
                                        : " (assumed)");
}

void add_links(const MachineOptions& options, bool is_published, MachineDescription& machine) {
  const cost::MachineLimits& limits = machine.limits;
  if (limits.link.rows.size() == 1) {
    machine.words.push_back("messages between ranks: " + in_words(limits.link, options.link_latency_us.has_value(),
                                                                  options.link_bandwidth.has_value(), is_published));
  }
  if (limits.between_hosts.rows.empty()) return;
  machine.words.push_back(fmt::format("between hosts of {} ranks: {}", limits.ranks_per_host,
                                      in_words(limits.between_hosts, options.host_link_latency_us.has_value(),
                                               options.host_link_bandwidth.has_value(), is_published)));
}

/// Fills in values that are not known.
void add_assumed(const MachineOptions& options, bool is_published, MachineDescription& machine) {
  const cost::Rates known = machine.limits.of_each(1);
  const auto fill = [&](double known_rate, double assumed, double& limit, std::string_view what) {
    if (known_rate < std::numeric_limits<double>::infinity()) return;
    limit = assumed;
    machine.words.push_back(
        fmt::format("{} {}, assumed: give it, or use --measure or --probe", what, short_number(assumed / kGiga, 4)));
  };
  fill(known.read_bytes_per_s, kAssumedRank.read_bytes_per_s, machine.limits.rank.read_bytes_per_s, "GB/s of a rank:");
  fill(known.flops_per_s, kAssumedRank.flops_per_s, machine.limits.rank.flops_per_s, "GFLOP/s of a rank:");
  add_links(options, is_published, machine);
}

/// Scales the limits by the share that kernels reach.
void scale(const MachineOptions& options, MachineDescription& machine) {
  for (cost::Rates* rates : {&machine.limits.rank, &machine.limits.host}) {
    rates->read_bytes_per_s *= options.of_bandwidth;
    rates->flops_per_s *= options.of_peak;
  }
  machine.words.push_back(fmt::format(
      "kernels reach {:.3g} of the bandwidth and {:.3g} of the FLOP/s{}; norms, sampling and what lies between steps "
      "cost nothing",
      options.of_bandwidth, options.of_peak,
      options.of_bandwidth == 1.0 && options.of_peak == 1.0
          ? " (bench tells what yours reach: --of-bandwidth, --of-peak)"
          : ""));
}

Error no_probe(const std::string& origin, std::string_view found) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/inspect] --probe: found {} in {}, expected \"probe\" with \"read_bytes_per_s\" and "
                      "\"flops_per_s\" above 0, as bench --json writes it",
                      found, origin)};
}

/// A number of `json`, or 0.
double number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

/// A count from 1 to 2^15; 1 where the file has none.
int count_in(const Json& json, const char* key) {
  constexpr double kMost = 1 << 15;
  const double number = number_in(json, key);
  return number >= 1 && number <= kMost ? static_cast<int>(number) : 1;
}

/// Whole numbers up to 2^53; 0 for others.
int64_t bytes_in(const Json& json) {
  constexpr double kMost = 1LL << 53;
  const double number = number_in(json, "bytes");
  return number >= 1 && number <= kMost ? static_cast<int64_t>(number) : 0;
}

}  // namespace

cost::Link assumed_link() { return {.rows = {{.latency_s = kAssumedLatency, .bytes_per_s = kAssumedLinkBandwidth}}}; }

Result<RecordedProbe> parse_probe(const std::string& json, const std::string& origin) {
  if (nests_too_deep(json)) return no_probe(origin, "lists nested too deep");
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return no_probe(origin, "no JSON object");
  const auto probe = file.find("probe");
  if (probe == file.end() || !probe->is_object()) return no_probe(origin, "no \"probe\"");
  RecordedProbe recorded{.rates = {number_in(*probe, "read_bytes_per_s"), number_in(*probe, "flops_per_s")}};
  if (!(recorded.rates.read_bytes_per_s > 0)) return no_probe(origin, "no \"read_bytes_per_s\"");
  if (!(recorded.rates.flops_per_s > 0)) return no_probe(origin, "no \"flops_per_s\"");
  recorded.ranks = count_in(file, "world_size");
  const auto of_devices = probe->find("of_devices");
  recorded.of_devices = of_devices != probe->end() && *of_devices == true;
  recorded.cores = recorded.ranks * count_in(file, "threads");
  const auto collectives = probe->find("collectives");
  if (collectives == probe->end() || !collectives->is_array()) return recorded;
  for (const Json& line : *collectives) {
    const cost::LinkMeasurement measured{bytes_in(line), number_in(line, "seconds")};
    const bool rises = recorded.collectives.empty() || recorded.collectives.back().bytes < measured.bytes;
    if (measured.bytes < 1 || !(measured.seconds > 0) || !rises)
      return no_probe(origin, "\"collectives\" that do not rise");
    recorded.collectives.push_back(measured);
  }
  return recorded;
}

Result<MachineDescription> describe_machine(const MachineOptions& options, probe::Precision precision,
                                            const Clock& clock,
                                            const std::optional<device::PublishedLimits>& published) {
  MachineDescription machine;
  machine.limits.link = assumed_link();
  machine.limits.ranks_per_host = options.ranks_per_host.value_or(0);
  if (published) add_published(*published, options, machine);
  if (options.measure) LOCKSTEP_TRY_VOID(measure_limits(options, precision, clock, machine));
  if (options.probe) LOCKSTEP_TRY_VOID(read_probe(options, machine));
  if (options.rank_cores && !options.measure && !options.probe) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[engine/inspect] --rank-cores: found {} cores of an unknown machine, expected --measure or "
                    "--probe beside it; or describe a rank by --bandwidth and --flops",
                    *options.rank_cores)};
  }
  add_given(options, machine);
  add_assumed(options, published.has_value(), machine);
  scale(options, machine);
  LOCKSTEP_TRY_VOID(machine.limits.validate());
  return machine;
}

probe::Precision precision_of(const checkpoint::ModelSpec& spec, DType dtype) {
  const std::optional<checkpoint::MatrixFormat>& usual = spec.formats.usual;
  if (usual && usual->activations == checkpoint::ActivationFormat::kInt8ByGroup) return probe::Precision::kInt8;
  return dtype == DType::kBFloat16 ? probe::Precision::kBFloat16 : probe::Precision::kFloat32;
}

}  // namespace lockstep::inspect
