#include "tests/neuron_stand_in/nrt/planted_faults.h"

#include <fmt/format.h>

#include <charconv>

namespace lockstep::stand_in {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// The number that `text` is, whole.
template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<PlantedFault> parse_one(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  std::string_view where = text.substr(0, equals);
  const std::string_view what = text.substr(equals + 1);
  PlantedFault fault;
  if (const size_t hash = where.find('#'); hash != std::string_view::npos) {
    fault.number = number_of<int>(where.substr(hash + 1));
    if (!fault.number) return std::nullopt;
    where = where.substr(0, hash);
  }
  if (const size_t at = where.find('@'); at != std::string_view::npos) {
    fault.core = number_of<uint32_t>(where.substr(at + 1));
    if (!fault.core) return std::nullopt;
    where = where.substr(0, at);
  }
  fault.call = where;
  if (what == "hang") {
    fault.action = PlantedFault::Action::kHang;
  } else if (what == "die") {
    fault.action = PlantedFault::Action::kDie;
  } else if (const auto status = number_of<int>(what)) {
    fault.status = *status;
  } else {
    return std::nullopt;
  }
  return fault.call.empty() ? std::nullopt : std::optional(fault);
}

}  // namespace

Result<std::vector<PlantedFault>> parse_planted_faults(std::string_view text) {
  std::vector<PlantedFault> faults;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const auto fault = parse_one(part);
    if (!fault) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[stand-in] STAND_IN_NRT_FAULTS: found '{}', expected CALL[@CORE][#NUMBER]=STATUS, "
                               "hang or die",
                               part)};
    }
    faults.push_back(*fault);
  }
  return faults;
}

std::optional<PlantedFault> FaultPlan::next(const std::string& call) {
  const int number = ++counts_[call];
  for (const PlantedFault& fault : faults_) {
    if (fault.call != call || fault.core.value_or(core_) != core_ || fault.number.value_or(number) != number) continue;
    return fault;
  }
  return std::nullopt;
}

}  // namespace lockstep::stand_in
