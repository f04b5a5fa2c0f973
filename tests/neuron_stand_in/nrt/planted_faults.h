// Planted faults: calls that return an error, wait forever, or kill their process.
//
//   STAND_IN_NRT_FAULTS="execute@1#3=1200; load=hang"
//
//   CALL[@CORE][#NUMBER]=STATUS|hang|die     CALL    a function's name without nrt_; "load" is load_collectives, too
//                                            CORE    only in the process whose first visible core it is
//                                            NUMBER  only the NUMBER-th such call of the process, from 1
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::stand_in {

struct PlantedFault {
  enum class Action { kStatus, kHang, kDie };

  std::string call;
  std::optional<uint32_t> core;
  std::optional<int> number;
  Action action = Action::kStatus;
  int status = 0;

  friend bool operator==(const PlantedFault&, const PlantedFault&) = default;
};

/// Fails with `kInvalidArgument`; the message quotes the part that cannot be read.
Result<std::vector<PlantedFault>> parse_planted_faults(std::string_view text);

/// Counts calls and selects those that fail.
class FaultPlan {
 public:
  FaultPlan(std::vector<PlantedFault> faults, uint32_t core) : faults_(std::move(faults)), core_(core) {}

  /// Counts one more call of `call`; returns its fault, if any.
  std::optional<PlantedFault> next(const std::string& call);

 private:
  std::vector<PlantedFault> faults_;
  uint32_t core_;
  std::map<std::string, int> counts_;
};

}  // namespace lockstep::stand_in
