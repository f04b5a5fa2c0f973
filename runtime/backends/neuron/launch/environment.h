// What the Neuron runtime reads from the environment of a rank's process. It is set before the runtime starts; what the
// user has set stays, and is said.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::neuron {

/// What decides the variables of one rank.
struct RankEnvironment {
  int core = 0;              // of the host
  std::string root;          // host:port where the ranks meet; empty in a group of one
  Duration step_deadline{};  // of one execution
  int logical_core = 1;      // physical cores that make one of trn2's, as modules are compiled
};

struct Variable {
  std::string name, value;
  bool is_users = false;  // was set before, and stays
  std::string note;       // what to say of it; empty: nothing

  friend bool operator==(const Variable&, const Variable&) = default;
};

/// The variables, in a fixed order. `user` looks one up as the user has set it. Pure otherwise. Fails with
/// `kFailedPrecondition` where a variable of the user's contradicts what modules are compiled for.
Result<std::vector<Variable>> variables_of(const RankEnvironment& rank,
                                           const std::function<std::optional<std::string>(std::string_view)>& user);

/// A TCP port that is free now on all addresses of this host. Fails with `kUnavailable`.
Result<int> free_port();

}  // namespace lockstep::neuron
