#include "launcher/measure/doctor/doctor_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTalkedAbout = 8 << 10;  // bytes: about the size of a small model's all-reduce

std::string counted(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Indents every line by `blanks` blanks.
std::string indented(std::string_view text, size_t blanks) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += std::string(blanks, ' ') + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// "; shm is 3.1x faster than mpi for messages of 8 KiB".
std::string comparison(const DoctorReport& report) {
  std::vector<const CollectiveFigure*> ways;
  for (const CollectiveFigure& figure : report.collectives) {
    if (figure.operation == "all_reduce" && figure.bytes == kTalkedAbout) ways.push_back(&figure);
  }
  if (ways.size() < 2) return "";
  std::ranges::sort(ways, {}, [](const auto* figure) { return figure->median_us; });
  const double ratio = ways[1]->median_us / std::max(ways[0]->median_us, 1e-9);
  if (ratio < 1.1) {
    return fmt::format("; {} and {} are about as fast at 8 KiB", ways[0]->communicator, ways[1]->communicator);
  }
  return fmt::format("; {} is {:.1f}x faster than {} at 8 KiB", ways[0]->communicator, ratio, ways[1]->communicator);
}

std::string next_command(const DoctorReport& report) {
  const std::string launcher = report.launcher.empty() ? "" : report.launcher + " ";
  const std::string ranks = report.threads ? fmt::format(" --launch threads --tp {}", report.world_size) : "";
  const std::string ways = report.world_size > 1 ? " --communicator auto" : "";
  return fmt::format("{}lockstep generate{}{} --model DIR --prompt \"Hello\"", launcher, ranks, ways);
}

const Check* first_with(const DoctorReport& report, CheckStatus status) {
  const auto found = std::ranges::find(report.checks, status, &Check::status);
  return found == report.checks.end() ? nullptr : &*found;
}

std::vector<std::string> names_with(const DoctorReport& report, CheckStatus status) {
  std::vector<std::string> names;
  for (const Check& check : report.checks) {
    if (check.status == status) names.push_back(check.name);
  }
  return names;
}

Json to_json(const Check& check) {
  std::string status(to_string(check.status));
  std::ranges::transform(status, status.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {{"name", check.name},   {"status", status},           {"seconds", check.seconds},
          {"found", check.found}, {"expected", check.expected}, {"fix", check.fix}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const HostLine& host) {
  return {{"name", host.name},
          {"ranks", host.ranks},
          {"cores", host.cores},
          {"memory_bytes", host.memory_bytes},
          {"available_bytes", host.available_bytes},
          {"memory_limit_bytes", or_null(host.memory_limit)},
          {"core_limit", or_null(host.core_limit)},
          {"core_pressure", or_null(host.core_pressure)},
          {"shm_bytes", host.shm_bytes},
          {"shm_free_bytes", host.shm_free}};
}

Json to_json(const RankLine& rank) {
  return {{"host", rank.host},
          {"device", rank.device},
          {"cores", rank.cores},
          {"threads", rank.threads},
          {"read_bytes_per_s", or_null(rank.read_bytes_per_s)},
          {"flops_per_s", or_null(rank.flops_per_s)}};
}

/// The machine in the format of `plan --probe`: limits of all ranks together, and the time of an all-reduce followed by
/// an all-gather of each size with the fastest communicator.
Json probe_of(const DoctorReport& report) {
  Json probe = Json::object();
  if (report.limits) {
    probe["read_bytes_per_s"] = report.limits->read_bytes_per_s;
    probe["flops_per_s"] = report.limits->flops_per_s;
    probe["flops_precision"] = report.limits->precision;
  }
  std::map<int64_t, std::map<std::string, double>> pairs;  // microseconds by size and communicator
  for (const CollectiveFigure& figure : report.collectives) {
    if (figure.operation != "broadcast") pairs[figure.bytes][figure.communicator] += figure.median_us;
  }
  for (const auto& [bytes, ways] : pairs) {
    const auto least = std::ranges::min_element(ways, {}, [](const auto& way) { return way.second; });
    probe["collectives"].push_back(
        {{"bytes", bytes}, {"seconds", least->second * 1e-6}, {"communicator", least->first}});
  }
  return probe;
}

}  // namespace

std::string_view to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk: return "ok";
    case CheckStatus::kWarning: return "warning";
    case CheckStatus::kFailed: return "FAILED";
    case CheckStatus::kSkipped: return "skipped";
  }
  return "unknown";
}

Check failed_check(const Error& error) {
  constexpr std::string_view kExpected = ", expected ";
  std::string text = error.message;
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos) text.erase(0, end + 2);
  Check check{.status = CheckStatus::kFailed};
  const size_t expected = text.rfind(kExpected);
  const size_t fix = expected == std::string::npos ? text.rfind("; ") : text.find("; ", expected);
  if (fix != std::string::npos) {
    check.fix = text.substr(fix + 2);
    text.resize(fix);
  }
  if (expected != std::string::npos) {
    check.expected = text.substr(expected + kExpected.size());
    text.resize(expected);
  }
  check.found = std::move(text);
  return check;
}

CheckStatus DoctorReport::verdict() const {
  if (first_with(*this, CheckStatus::kFailed) != nullptr) return CheckStatus::kFailed;
  return first_with(*this, CheckStatus::kWarning) != nullptr ? CheckStatus::kWarning : CheckStatus::kOk;
}

std::string to_lines(const Check& check) {
  std::string text =
      fmt::format("{:<8} {:<15} {:>6.2f} s  {}\n", to_string(check.status), check.name, check.seconds, check.found);
  if (!check.expected.empty()) text += fmt::format("{:>35}{}\n", "expected: ", check.expected);
  if (!check.fix.empty()) text += fmt::format("{:>35}{}\n", "fix: ", check.fix);
  return text + indented(check.table, 9);
}

std::string to_lines(std::span<const Check> checks) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < checks.size(); begin = end) {
    const Check& first = checks[begin];
    std::vector<std::string_view> names;
    for (end = begin; end < checks.size(); ++end) {
      const bool is_alike = checks[end].status == CheckStatus::kSkipped && checks[end].found == first.found;
      if (end > begin && !is_alike) break;
      names.push_back(checks[end].name);
    }
    text += names.size() == 1
                ? to_lines(first)
                : fmt::format("{:<8} {}: {}\n", to_string(first.status), fmt::join(names, ", "), first.found);
  }
  return text;
}

std::string closing_words(const DoctorReport& report) {
  std::string who = counted(static_cast<size_t>(report.world_size), "rank");
  if (!report.hosts.empty()) who += " on " + counted(report.hosts.size(), "host");
  if (const Check* failed = first_with(report, CheckStatus::kFailed)) {
    return fmt::format("\n{}: not ready: {} failed.\nfirst: {}\nthen run lockstep doctor again\n", who,
                       fmt::join(names_with(report, CheckStatus::kFailed), ", "),
                       failed->fix.empty() ? failed->found : failed->fix);
  }
  if (const Check* warning = first_with(report, CheckStatus::kWarning)) {
    return fmt::format("\n{}: works, but could be better ({}){}\nfirst: {}\nnext: {}\n", who,
                       fmt::join(names_with(report, CheckStatus::kWarning), ", "), comparison(report),
                       warning->fix.empty() ? warning->found : warning->fix, next_command(report));
  }
  return fmt::format("\n{}: everything works{}\nnext: {}\n", who, comparison(report), next_command(report));
}

std::string to_json(const DoctorReport& report) {
  Json json;
  json["verdict"] = report.verdict() == CheckStatus::kFailed ? "failed" : std::string(to_string(report.verdict()));
  json["world_size"] = report.world_size;
  json["threads"] = report.ranks.empty() ? 1 : report.ranks.front().threads;
  json["checks"] = Json::array();
  for (const Check& check : report.checks) json["checks"].push_back(to_json(check));
  json["collectives"] = Json::array();
  for (const CollectiveFigure& figure : report.collectives) {
    json["collectives"].push_back({{"communicator", figure.communicator},
                                   {"operation", figure.operation},
                                   {"bytes", figure.bytes},
                                   {"median_us", figure.median_us},
                                   {"p99_us", figure.p99_us},
                                   {"bytes_per_s", figure.bytes_per_s()}});
  }
  json["hosts"] = Json::array();
  for (const HostLine& host : report.hosts) json["hosts"].push_back(to_json(host));
  json["ranks"] = Json::array();
  for (const RankLine& rank : report.ranks) json["ranks"].push_back(to_json(rank));
  json["probe"] = probe_of(report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::launcher
