// Another program, started and waited for: its words, its environment, a deadline, and the end of what it printed.
//
//   start ──► running ──────────────────► ended by itself ──────────────┐
//                │ deadline, or a stop                                    ├─► its session is emptied ─► ChildOutcome
//                └─► end signal to its group ─► grace ─► SIGKILL ────────┘
//
// A child is the first process of a session of its own: Ctrl-C on the terminal reaches only this program, which
// decides; and whatever the child starts, in whichever process group (mpirun gives each rank one), is found by the
// session and never outlives it. When this program dies, however it dies, the kernel sends the child `orphan_signal`.
//
// Why not Boost.Process 1.74: its timed wait replaces the handler of SIGCHLD for the whole process, it cannot wait for
// pipes, an exit and a stop at once without an I/O service, it has no session and no signal for orphans, and it needs a
// compiled library besides.
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

/// Where one of a child's two outputs goes.
enum class ChildStream {
  kInherit,  // where ours goes
  kDiscard,  // nowhere
  kCapture,  // its last bytes into the outcome
  kPassOn,   // where ours goes, and its last bytes into the outcome
  kLog,      // to the end of the command's log file
};

/// Whether a child gets our own environment. `kAll`: as it is; the command's then only says, by PATH, where the program
/// is looked for.
enum class Inheritance { kNone, kAll };

/// What is started, and how.
struct ChildCommand {
  std::vector<std::string> words;  // the program first: a path, or a name that is looked for in PATH of `environment`
  EnvironmentMap environment;      // all of it, unless ours is inherited
  Inheritance inheritance = Inheritance::kNone;
  ChildStream output = ChildStream::kInherit;
  ChildStream errors = ChildStream::kInherit;
  std::filesystem::path folder;  // where it runs, once it was found; empty: where we do
  std::filesystem::path log;     // made when it is not there; both streams may go to it
  size_t kept_bytes = 16384;     // of each captured stream: its end
  int orphan_signal = 15;        // SIGTERM; what the child gets when the thread that started it ends; 0: nothing
};

/// How long a child may run and how it is ended.
struct ChildLimits {
  std::optional<Duration> deadline;           // from its start; empty: none
  int end_signal = 15;                        // SIGTERM; what the child's group is sent first
  Duration grace = std::chrono::seconds(10);  // from then until SIGKILL
};

/// A child that is over.
struct ChildOutcome {
  enum class End { kItself, kDeadline, kStop };  // why it ended

  End end = End::kItself;
  std::optional<int> code;     // what it returned; empty when a signal ended it
  std::optional<int> signal;   // that signal
  std::string output, errors;  // the ends of the captured streams
  Duration took{};

  bool succeeded() const { return end == End::kItself && code == 0; }
  /// The code as a shell gives it: 128 + the signal for a child that a signal ended.
  int shell_code() const { return code ? *code : 128 + signal.value_or(0); }
};

/// "exit code 3", "signal 9 (Killed)", with the deadline or the stop that led to it.
std::string to_string(const ChildOutcome& outcome);

/// Asks for the end of the child that is being waited for: raised by another thread, seen by `ChildProcess::wait`.
using ChildStop = StopEvent;

/// A running child. Destroying it kills and reaps what is left of it.
class ChildProcess {
 public:
  /// Fails with `kNotFound` when there is no such program, with `kUnavailable` when the system refuses to start it.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildCommand& command);

  virtual ~ChildProcess() = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Of the child; also of its session and process group.
  virtual pid_t pid() const = 0;

  /// Waits for its end, ending it when the deadline passes or `stop` (may be null) is raised. Call it once. @blocking
  virtual ChildOutcome wait(const ChildLimits& limits, const ChildStop* stop) = 0;

 protected:
  ChildProcess() = default;
};

/// Starts `command` and waits for it. @blocking
Result<ChildOutcome> run_child(const ChildCommand& command, const ChildLimits& limits, const ChildStop* stop);

}  // namespace lockstep::process
