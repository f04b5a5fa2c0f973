// Starts a program and waits for it: arguments, environment, deadline, captured output.
//
//   start ──► running ──────────────────► ended by itself ──────────────┐
//                │ deadline, or a stop                                    ├─► its session is killed ─► ChildOutcome
//                └─► end signal to its group ─► grace ─► SIGKILL ────────┘
//
// A child leads its own session. Ctrl-C on the terminal therefore reaches only this program, which decides what to end.
// All descendants of the child, in any process group (mpirun gives each rank one), are found by the session and never
// outlive it. When this program dies, the kernel sends the child `orphan_signal`.
//
// Boost.Process 1.74 is not used: its timed wait replaces the handler of SIGCHLD for the whole process; it cannot wait
// for pipes, an exit and a stop at once without an I/O service; it has no sessions and no signal for orphans; and it
// needs a compiled library.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"

namespace lockstep::process {

/// Names and values.
using EnvironmentMap = std::map<std::string, std::string>;

/// The destination of one of a child's two outputs.
enum class ChildStream {
  kInherit,  // the parent's stream
  kDiscard,  // discarded
  kCapture,  // the last bytes are kept in the outcome
  kPassOn,   // the parent's stream, and the last bytes are kept in the outcome
  kLog,      // appended to the command's log file
};

/// Whether a child inherits the environment. With `kAll` it inherits all of it, and the command's environment only
/// supplies the PATH for finding the program.
enum class Inheritance { kNone, kAll };

/// The program to start, with its arguments and streams.
struct ChildCommand {
  std::vector<std::string> words;  // the program (a path, or a name to find in PATH of `environment`) and its arguments
  EnvironmentMap environment;      // the complete environment, unless it is inherited
  Inheritance inheritance = Inheritance::kNone;
  ChildStream output = ChildStream::kInherit;
  ChildStream errors = ChildStream::kInherit;
  std::filesystem::path folder;       // working directory; empty: the parent's
  std::filesystem::path log;          // created if necessary; both streams may use it
  size_t kept_bytes = 16384;          // kept of the end of each captured stream
  std::vector<int> kept;              // descriptors of the parent that the child keeps, under their numbers
  std::vector<int> hardware_threads;  // the child and its descendants may run on; empty: the parent's
  int orphan_signal = 15;             // SIGTERM; sent when the thread that started the child ends; 0: none
};

/// The deadline of a child and how it is ended.
struct ChildLimits {
  std::optional<Duration> deadline;           // from its start; empty: none
  int end_signal = 15;                        // SIGTERM; sent first, to the child's group
  Duration grace = std::chrono::seconds(10);  // between that signal and SIGKILL
};

/// The result of an ended child.
struct ChildOutcome {
  enum class End { kItself, kDeadline, kStop };  // reason of the end

  End end = End::kItself;
  std::optional<int> code;     // exit code; empty when a signal ended it
  std::optional<int> signal;   // that signal
  std::string output, errors;  // the ends of the captured streams
  Duration took{};

  bool succeeded() const { return end == End::kItself && code == 0; }
  /// The exit code in shell notation: 128 + the signal for a child ended by a signal.
  int shell_code() const { return code ? *code : 128 + signal.value_or(0); }
};

/// "exit code 3", "signal 9 (Killed)", with the deadline or the stop that led to it.
std::string to_string(const ChildOutcome& outcome);

/// A request to end the child, raised by another thread and seen by `ChildProcess::wait`.
using ChildStop = StopEvent;

/// A running child. Destroying it kills and reaps the child and its session.
class ChildProcess {
 public:
  /// Fails with `kNotFound` when the program does not exist, with `kUnavailable` when the system cannot start it or has
  /// none of its hardware threads.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildCommand& command);

  virtual ~ChildProcess() = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The process id of the child, also of its session and process group.
  virtual pid_t pid() const = 0;

  /// Waits for its end, and ends it when the deadline passes or `stop` (may be null) is raised. Call once. @blocking
  virtual ChildOutcome wait(const ChildLimits& limits, const ChildStop* stop) = 0;

  /// Sends it a signal. Of no effect on one that has ended. Thread-safe, while `wait` runs too.
  virtual void send(int signal) = 0;

 protected:
  ChildProcess() = default;
};

/// Starts `command` and waits for it. @blocking
Result<ChildOutcome> run_child(const ChildCommand& command, const ChildLimits& limits, const ChildStop* stop);

}  // namespace lockstep::process
