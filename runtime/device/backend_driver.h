// Selection, configuration and start of a backend. Every build has one `BackendDriver` per backend:
//
//   options ──► check_options ──► place ──────────► check ─────────► make ──► Backend
//               values            which device      do the graphs            runs the rank's graphs
//                                 each rank takes   fit it?
//
// Implementations live in runtime/backends/<name>/driver.cpp. A build without a backend has its unavailable.cpp
// instead: the same options, and `available` explains how to enable it.
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
#include "runtime/device/device_exchange.h"
#include "runtime/device/device_rules.h"
#include "runtime/device/graph_inspector.h"
#include "runtime/device/option_row.h"
#include "runtime/device/rank_exchange.h"
#include "runtime/device/rank_place.h"

namespace lockstep::device {

/// How ranks run.
enum class RankForm { kProcesses, kThreads };

/// Which numbers of ranks a backend accepts: the degrees documented by the vendor of its devices, or any.
enum class Degrees { kDocumented, kAny };

/// Whether the bits of a sum may depend on the rows, columns and ranks that it is computed with.
enum class SumOrder { kFixed, kAny };

/// The environment of a rank while its backend starts. Everything is borrowed and outlives the backend.
struct RankSite {
  std::span<const RankPlace> places;  // by rank
  int rank = 0;
  RankForm form = RankForm::kProcesses;
  int threads = 1;                                    // of this rank
  std::span<const int> cores;                         // one core for each thread; empty: the threads are not bound
  std::string control_address;                        // of this host, reachable from the other hosts
  Duration step_deadline = std::chrono::seconds(60);  // of one wait between ranks
  Degrees degrees = Degrees::kDocumented;
  SumOrder sums = SumOrder::kFixed;
  std::string build;  // identifies the build of the program
  Exchange exchange;
  ConnectDevices connect_devices;                                           // for ranks on several hosts; may be empty
  std::function<std::optional<std::string>(std::string_view)> environment;  // reads a variable of this process
  /// Sets a variable of this process, for libraries configured by the environment. If empty, a backend that needs it
  /// fails and names the missing variable.
  std::function<void(const std::string& name, const std::string& value)> set_environment;
  const Log* log = nullptr;          // may be null
  const AbortFlag* abort = nullptr;  // may be null
  /// Called when a call of the rank does not return: ends the group and, where possible, the process. Runs on another
  /// thread; may be empty.
  std::function<void(const Error&)> on_stuck;

  int size() const { return static_cast<int>(places.size()); }
};

/// The device of each rank. The same value on every rank.
struct DevicePlan {
  std::vector<std::string> devices;               // by rank: "cpu", "neuron:3"
  std::vector<int> ordinals;                      // by rank: device number on its host; empty: not numbered
  std::vector<std::string> warnings;              // shown to the user once
  std::vector<std::vector<int>> near_cores = {};  // by rank: cores near its device; empty: unknown, or no such place

  friend bool operator==(const DevicePlan&, const DevicePlan&) = default;
};

/// How a system shows a backend's devices, to detect devices that are present but unused. Empty text: no such sign.
struct DeviceSigns {
  std::string_view noun;      // "GPU"
  std::string_view files;     // in /dev, followed by a number: "nvidia"
  std::string_view variable;  // the variable that limits the visible devices: "CUDA_VISIBLE_DEVICES"
};

/// Stateless; one object per backend for the life of the program. Thread-safe.
class BackendDriver {
 public:
  virtual ~BackendDriver() = default;

  virtual std::string_view name() const = 0;
  /// Fails with `kUnavailable` in a build without the backend; the message says how to enable it.
  virtual Result<void> available() const = 0;

  virtual std::span<const OptionRow> options() const = 0;
  /// Fails with `kInvalidArgument` naming the option. Pure.
  virtual Result<void> check_options(const OptionValues& values) const = 0;
  /// The settings that all ranks must share, and engines that go on with each other's requests: one per line
  /// ("--instruction-set avx512\n"). Takes checked values.
  virtual std::string statement(const OptionValues& values) const = 0;

  /// The capabilities of the backends that `make` returns.
  virtual Capabilities capabilities() const = 0;
  virtual DeviceSigns signs() const = 0;

  /// The devices that this process sees, a line each, and how they see each other; for people. None: nothing to say.
  /// Fails with `kUnavailable` where the devices' driver does not work. @blocking
  virtual Result<std::vector<std::string>> describe_devices() const { return std::vector<std::string>(); }

  /// Assigns devices to all ranks, before weights are read. Every rank gets the same error. @collective @blocking
  virtual Result<DevicePlan> place(const RankSite& site, const OptionValues& values) const = 0;
  /// Checks that a rank's graphs fit its device, before weights are read. Fails with `kResourceExhausted` naming what
  /// to lower. @blocking
  virtual Result<void> check(std::span<const StepGraph> steps, const RankSite& site, const DevicePlan& plan,
                             const OptionValues& values) const = 0;
  /// Makes the backend of this rank. If ranks start together, an error reaches every rank; otherwise one rank may fail
  /// alone.
  /// @collective @blocking
  virtual Result<std::unique_ptr<Backend>> make(const RankSite& site, const DevicePlan& plan,
                                                const OptionValues& values) const = 0;

  // Optional features; null: not supported by this backend.
  virtual const AheadCompiler* compiler() const = 0;
  virtual const DeviceRules* rules() const = 0;
  virtual const GraphInspector* inspector() const = 0;
};

/// The subset of `values` that are options of `driver`.
OptionValues own_options(const BackendDriver& driver, const OptionValues& values);

/// A plan without a choice of devices: `device` for every rank.
DevicePlan same_device(const RankSite& site, std::string_view device);

}  // namespace lockstep::device
