// The environment variables of the Neuron runtime in a rank's process. They are set before the runtime starts; the
// user's own values are kept and logged.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::neuron {

/// The input of one rank's variables.
struct RankEnvironment {
  int core = 0;              // of the host
  std::string root;          // host:port of the ranks' meeting point; empty in a group of one
  Duration step_deadline{};  // of one execution
  int logical_core = 1;      // physical cores per logical core of trn2, as compiled
};

struct Variable {
  std::string name, value;
  bool is_users = false;  // set by the user before, and kept
  std::string note;       // a message about it; empty: none

  friend bool operator==(const Variable&, const Variable&) = default;
};

/// The variables, in a fixed order. `user` returns the user's value of a variable. Pure otherwise. Fails with
/// `kFailedPrecondition` if a user's value contradicts the compiled modules.
Result<std::vector<Variable>> variables_of(const RankEnvironment& rank,
                                           const std::function<std::optional<std::string>(std::string_view)>& user);

/// A currently free TCP port on all addresses of this host. Fails with `kUnavailable`.
Result<int> free_port();

}  // namespace lockstep::neuron
