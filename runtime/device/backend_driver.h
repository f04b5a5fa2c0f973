// How a backend is chosen, configured and started. One `BackendDriver` stands for each backend, in every build:
//
//   options ──► check_options ──► place ──────────► check ─────────► make ──► Backend
//               values            which device      do the graphs            runs the rank's graphs
//                                 each rank takes   fit it?
//
// Implementations live in runtime/backends/<name>/driver.cpp. A build without a backend has its unavailable.cpp
// instead: the same options, and `available` says how to get it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"
#include "runtime/device/ahead_compiler.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_rules.h"
#include "runtime/device/graph_inspector.h"
#include "runtime/device/option_row.h"
#include "runtime/device/rank_exchange.h"
#include "runtime/device/rank_place.h"

namespace lockstep::device {

/// What ranks are.
enum class RankForm { kProcesses, kThreads };

/// Which numbers of ranks a backend takes: those that the maker of its devices documents, or any.
enum class Degrees { kDocumented, kAny };

/// Where a rank is, and what it may use while its backend starts. Everything is borrowed and outlives the backend.
struct RankSite {
  std::span<const RankPlace> places;  // by rank
  int rank = 0;
  RankForm form = RankForm::kProcesses;
  int threads = 1;                                    // of this rank
  std::span<const int> cores;                         // that these are bound to, one each; empty: they are not bound
  std::string control_address;                        // of this host, as the other hosts reach it
  Duration step_deadline = std::chrono::seconds(60);  // of one wait between ranks
  Degrees degrees = Degrees::kDocumented;
  std::string build;  // which build of the program this is
  Exchange exchange;
  std::function<std::optional<std::string>(std::string_view)> environment;  // a variable of this process
  /// Sets a variable of this process, for libraries that read their settings there. Empty: a backend that needs it
  /// fails and names what is missing.
  std::function<void(const std::string& name, const std::string& value)> set_environment;
  const Log* log = nullptr;          // may be null
  const AbortFlag* abort = nullptr;  // may be null
  /// A thread of the rank is in a call that does not return: ends the group, and the process where it may. Called on
  /// another thread; may be empty.
  std::function<void(const Error&)> on_stuck;

  int size() const { return static_cast<int>(places.size()); }
};

/// Which device each rank takes. The same value on every rank.
struct DevicePlan {
  std::vector<std::string> devices;   // by rank: "cpu", "neuron:3"
  std::vector<int> ordinals;          // by rank: the number of its device on its host; empty: none are numbered
  std::vector<std::string> warnings;  // for the user, once

  friend bool operator==(const DevicePlan&, const DevicePlan&) = default;
};

/// How a system shows the devices of a backend that nobody asked for yet. Empty text: it has none.
struct DeviceSigns {
  std::string_view noun;      // "GPU"
  std::string_view files;     // in /dev, followed by a number: "nvidia"
  std::string_view variable;  // that says which of them a process sees: "CUDA_VISIBLE_DEVICES"
};

/// Stateless; one object for each backend, for the life of the program. Thread-safe.
class BackendDriver {
 public:
  virtual ~BackendDriver() = default;

  virtual std::string_view name() const = 0;
  /// Fails with `kUnavailable` in a build without the backend; the message says what brings it.
  virtual Result<void> available() const = 0;

  virtual std::span<const OptionRow> options() const = 0;
  /// Fails with `kInvalidArgument` that names the option. Pure.
  virtual Result<void> check_options(const OptionValues& values) const = 0;
  /// What must be the same on every rank, a fact a line: "--instruction-set avx512\n". Of values that were checked.
  virtual std::string statement(const OptionValues& values) const = 0;

  /// What its backends will say of themselves.
  virtual Capabilities capabilities() const = 0;
  virtual DeviceSigns signs() const = 0;

  /// The devices of all ranks, before weights are read. Fails alike on every rank. @collective @blocking
  virtual Result<DevicePlan> place(const RankSite& site, const OptionValues& values) const = 0;
  /// Whether the graphs of a rank fit its device. Fails with `kResourceExhausted`, naming what to lower. Pure.
  virtual Result<void> check(std::span<const StepGraph> steps, const OptionValues& values) const = 0;
  /// The backend of this rank. Where ranks start together it fails alike on every rank; otherwise a rank may fail
  /// alone.
  /// @collective @blocking
  virtual Result<std::unique_ptr<Backend>> make(const RankSite& site, const DevicePlan& plan,
                                                const OptionValues& values) const = 0;

  // What only some backends have; null: this one does not.
  virtual const AheadCompiler* compiler() const = 0;
  virtual const DeviceRules* rules() const = 0;
  virtual const GraphInspector* inspector() const = 0;
};

/// Of `values` those that are options of `driver`.
OptionValues own_options(const BackendDriver& driver, const OptionValues& values);

/// The plan of a backend without devices to choose from: `device` for every rank.
DevicePlan same_device(const RankSite& site, std::string_view device);

}  // namespace lockstep::device
