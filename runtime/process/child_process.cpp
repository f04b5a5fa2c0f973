#include "runtime/process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "runtime/core/descriptor.h"
#include "runtime/core/readiness.h"
#include "runtime/process/own_children.h"
#include "runtime/process/process_table.h"

namespace lockstep::process {
namespace {

/// How long killed processes may take to disappear.
constexpr Duration kAfterKill = std::chrono::seconds(5);

struct Pipe {
  Descriptor read, write;
};

Error cannot_start(const std::string& program, int code) {
  const bool missing = code == ENOENT || code == EACCES || code == ENOTDIR;
  return {missing ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
          fmt::format("[runtime/process] cannot start {}: {}; {}", program, std::strerror(code),
                      missing ? "name a program that exists, or put it into PATH" : "free processes or memory")};
}

Error cannot_bind(const std::string& program, std::span<const int> hardware_threads, int code) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/process] cannot start {} on its hardware threads: found {} ({}), expected some of this "
                      "machine or container; see Cpus_allowed_list in /proc/self/status",
                      program, fmt::join(hardware_threads, ","), std::strerror(code))};
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot_start("a program", errno);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Finds the file of the program `name` in the PATH of the child.
Result<std::string> find_program(const std::string& name, const EnvironmentMap& environment) {
  if (name.find('/') != std::string::npos) return name;
  const auto path = environment.find("PATH");
  const std::string folders = path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    std::error_code failed;
    if (end > begin && ::access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate, failed)) {
      return candidate;
    }
    begin = end + 1;
  }
  return cannot_start(name, ENOENT);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

/// One bit for each hardware thread, as the kernel reads them: also more of them than a cpu_set_t holds.
using ThreadMask = std::vector<unsigned long>;

ThreadMask mask_of(std::span<const int> hardware_threads) {
  constexpr size_t kBits = std::numeric_limits<unsigned long>::digits;
  ThreadMask mask;
  for (const int number : hardware_threads) {
    LOCKSTEP_CHECK(number >= 0, number);
    const auto thread = static_cast<size_t>(number);
    mask.resize(std::max(mask.size(), thread / kBits + 1));
    mask[thread / kBits] |= 1UL << (thread % kBits);
  }
  return mask;
}

/// Why the new process could not become the program.
struct StartFailure {
  enum class Step : int { kExec, kBind };

  int code = 0;  // error number; 0: it has become the program
  Step step = Step::kExec;
};

/// Everything that the new process needs between fork and exec. Prepared in advance, because only async-signal-safe
/// calls are allowed after fork.
struct Launch {
  const char* program;
  const char* folder;  // null: the current folder
  char* const* words;
  char* const* environment;   // null: inherited
  int input, output, errors;  // descriptors; -1: inherited
  std::span<const int> kept;
  const ThreadMask& hardware_threads;  // empty: inherited
  int failure;                         // receives a StartFailure
  int orphan_signal;
  pid_t parent;
};

[[noreturn]] void fail(const Launch& launch, StartFailure::Step step) {
  const StartFailure failure{.code = errno, .step = step};
  [[maybe_unused]] const auto written = ::write(launch.failure, &failure, sizeof failure);
  ::_exit(127);
}

void bind(const Launch& launch) {
  if (launch.hardware_threads.empty()) return;
  const auto* set = reinterpret_cast<const cpu_set_t*>(launch.hardware_threads.data());
  const size_t bytes = launch.hardware_threads.size() * sizeof(unsigned long);
  if (::sched_setaffinity(0, bytes, set) != 0) fail(launch, StartFailure::Step::kBind);
}

[[noreturn]] void become(const Launch& launch) {
  ::setsid();
  if (launch.orphan_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, launch.orphan_signal);
    if (::getppid() != launch.parent) ::_exit(127);  // the parent died before prctl
  }
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(launch.input, STDIN_FILENO);
  if (launch.output >= 0) ::dup2(launch.output, STDOUT_FILENO);
  if (launch.errors >= 0) ::dup2(launch.errors, STDERR_FILENO);
  for (const int kept : launch.kept) ::fcntl(kept, F_SETFD, 0);
  bind(launch);
  if (launch.folder == nullptr || ::chdir(launch.folder) == 0) {
    launch.environment == nullptr ? ::execv(launch.program, launch.words)
                                  : ::execve(launch.program, launch.words, launch.environment);
  }
  fail(launch, StartFailure::Step::kExec);
}

/// The processes of `session` that have not ended.
std::vector<pid_t> processes_of_session(pid_t session) {
  std::vector<pid_t> found;
  for (const ListedProcess& process : list_processes()) {
    if (process.session == session) found.push_back(process.pid);
  }
  return found;
}

/// The end of one captured output stream.
class Tail {
 public:
  Tail(Descriptor pipe, size_t kept, int copy) : pipe_(std::move(pipe)), kept_(kept), copy_(copy) {}

  int descriptor() const { return pipe_.get(); }
  bool is_open() const { return pipe_.is_open(); }

  /// Reads the available bytes; closes at the end of the stream.
  void read() {
    std::array<char, 65536> buffer;
    const ssize_t size = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (size < 0 && is_temporary(errno)) return;
    if (size <= 0) return pipe_.close();
    text_.append(buffer.data(), static_cast<size_t>(size));
    if (text_.size() > kept_) text_.erase(0, text_.size() - kept_);
    if (copy_ >= 0) pass_on(std::string_view(buffer.data(), static_cast<size_t>(size)));
  }

  /// Reads the available bytes without waiting, and returns the end of the stream.
  std::string finish() {
    if (is_open()) ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    while (is_open() && becomes_ready(pipe_.get(), POLLIN, Duration::zero())) read();
    return std::move(text_);
  }

 private:
  void pass_on(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(copy_, text.data(), text.size());
      if (written < 0 && errno != EINTR) return;
      if (written > 0) text.remove_prefix(static_cast<size_t>(written));
    }
  }

  Descriptor pipe_;
  size_t kept_;
  int copy_;
  std::string text_;
};

class RunningChild final : public ChildProcess {
 public:
  RunningChild(pid_t pid, Descriptor handle, TimePoint started, std::vector<Tail> tails)
      : pid_(pid), handle_(std::move(handle)), started_(started), tails_(std::move(tails)) {}
  ~RunningChild() override {
    if (!reaped_) reap();
  }

  pid_t pid() const override { return pid_; }
  ChildOutcome wait(const ChildLimits& limits, const ChildStop* stop) override;
  void send(int signal) override { ::syscall(SYS_pidfd_send_signal, handle_.get(), signal, nullptr, 0); }

 private:
  enum class Event { kEnded, kStopped, kTime };

  Event wait_until(std::optional<TimePoint> limit, const ChildStop* stop);
  void empty_session();
  int reap();

  pid_t pid_;
  Descriptor handle_;  // readable once the process has ended
  TimePoint started_;
  std::vector<Tail> tails_;  // output, errors
  bool reaped_ = false;
  const SteadyClock clock_;
};

/// Reads streams until the child has ended, `stop` is raised or `limit` is reached.
RunningChild::Event RunningChild::wait_until(std::optional<TimePoint> limit, const ChildStop* stop) {
  while (true) {
    std::vector<pollfd> waits{{.fd = handle_.get(), .events = POLLIN, .revents = 0},
                              {.fd = stop == nullptr ? -1 : stop->descriptor(), .events = POLLIN, .revents = 0}};
    for (const Tail& tail : tails_) waits.push_back({.fd = tail.descriptor(), .events = POLLIN, .revents = 0});
    int milliseconds = 60000;
    if (limit) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*limit - clock_.now()).count();
      if (left <= 0) return Event::kTime;
      milliseconds = static_cast<int>(std::min<int64_t>(left, milliseconds));
    }
    if (::poll(waits.data(), waits.size(), milliseconds) <= 0) continue;
    for (size_t i = 0; i < tails_.size(); ++i) {
      if (waits[i + 2].revents != 0) tails_[i].read();
    }
    if (waits[0].revents != 0) return Event::kEnded;
    if (waits[1].revents != 0) return Event::kStopped;
  }
}

/// Kills the remaining processes of the child's session. The child is not reaped yet, so its id cannot name another
/// session.
void RunningChild::empty_session() {
  const Deadline limit(clock_, kAfterKill);
  for (auto left = processes_of_session(pid_); !left.empty() && !limit.has_passed();
       left = processes_of_session(pid_)) {
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    ::poll(nullptr, 0, 2);
  }
}

/// The child's status, after its whole session has ended.
int RunningChild::reap() {
  ::kill(-pid_, SIGKILL);
  empty_session();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  OwnChildren::instance().remove(pid_);
  reaped_ = true;
  return status;
}

ChildOutcome RunningChild::wait(const ChildLimits& limits, const ChildStop* stop) {
  std::optional<TimePoint> limit;
  if (limits.deadline) limit = started_ + *limits.deadline;
  ChildOutcome outcome;
  const Event event = wait_until(limit, stop);
  if (event != Event::kEnded) {
    outcome.end = event == Event::kTime ? ChildOutcome::End::kDeadline : ChildOutcome::End::kStop;
    ::kill(-pid_, limits.end_signal);
    wait_until(clock_.now() + limits.grace, nullptr);
  }
  outcome.took = clock_.now() - started_;
  const int status = reap();
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.output = tails_[0].finish();
  outcome.errors = tails_[1].finish();
  return outcome;
}

/// One stream: the child's end (-1: inherited) and the parent's end.
struct Stream {
  Descriptor child;
  Descriptor ours;
};

Result<Stream> make_stream(ChildStream kind, const std::filesystem::path& log) {
  if (kind == ChildStream::kInherit) return Stream{};
  if (kind == ChildStream::kLog) {
    Descriptor file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (file.is_open()) return Stream{std::move(file), {}};
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[runtime/process] cannot write {}: {}; choose a folder that can be written to",
                             log.string(), std::strerror(errno))};
  }
  if (kind == ChildStream::kDiscard) return Stream{Descriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)), {}};
  LOCKSTEP_TRY(Pipe pipe, make_pipe());
  return Stream{std::move(pipe.write), std::move(pipe.read)};
}

/// What the new process has sent; nothing when it has become the program.
StartFailure failure_of(Pipe& pipe) {
  pipe.write.close();
  StartFailure failure;
  ssize_t size = 0;
  do {
    size = ::read(pipe.read.get(), &failure, sizeof failure);
  } while (size < 0 && errno == EINTR);
  return size == sizeof failure ? failure : StartFailure{};
}

std::vector<std::string> as_words(const EnvironmentMap& environment) {
  std::vector<std::string> words;
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  return words;
}

}  // namespace

std::string to_string(const ChildOutcome& outcome) {
  const std::string how =
      outcome.code ? fmt::format("exit code {}", *outcome.code)
                   : fmt::format("signal {} ({})", outcome.signal.value_or(0), ::strsignal(outcome.signal.value_or(0)));
  switch (outcome.end) {
    case ChildOutcome::End::kItself: return how;
    case ChildOutcome::End::kDeadline: return "ended at its deadline: " + how;
    case ChildOutcome::End::kStop: return "ended on request: " + how;
  }
  return how;
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildCommand& command) {
  LOCKSTEP_CHECK(!command.words.empty());
  LOCKSTEP_TRY(std::string program, find_program(command.words.front(), command.environment));
  if (!command.folder.empty()) program = std::filesystem::absolute(program);  // relative to the parent's folder
  LOCKSTEP_TRY(Stream output, make_stream(command.output, command.log));
  LOCKSTEP_TRY(Stream errors, make_stream(command.errors, command.log));
  LOCKSTEP_TRY(Pipe failure, make_pipe());
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<std::string> words = command.words, settings = as_words(command.environment);
  const std::vector<char*> word_list = pointers(words), setting_list = pointers(settings);
  const ThreadMask hardware_threads = mask_of(command.hardware_threads);
  const Launch launch{.program = program.c_str(),
                      .folder = command.folder.empty() ? nullptr : command.folder.c_str(),
                      .words = word_list.data(),
                      .environment = command.inheritance == Inheritance::kAll ? nullptr : setting_list.data(),
                      .input = input.get(),
                      .output = output.child.get(),
                      .errors = errors.child.get(),
                      .kept = command.kept,
                      .hardware_threads = hardware_threads,
                      .failure = failure.write.get(),
                      .orphan_signal = command.orphan_signal,
                      .parent = ::getpid()};
  const TimePoint started = SteadyClock().now();
  const pid_t pid = OwnChildren::instance().add([&] {
    const pid_t forked = ::fork();
    if (forked == 0) become(launch);
    return forked;
  });
  if (pid < 0) return cannot_start(program, errno);
  if (const StartFailure failed = failure_of(failure); failed.code != 0) {
    ::waitpid(pid, nullptr, 0);
    OwnChildren::instance().remove(pid);
    return failed.step == StartFailure::Step::kBind ? cannot_bind(program, command.hardware_threads, failed.code)
                                                    : cannot_start(program, failed.code);
  }
  const auto copy = [](ChildStream kind, int target) { return kind == ChildStream::kPassOn ? target : -1; };
  std::vector<Tail> tails;
  tails.emplace_back(std::move(output.ours), command.kept_bytes, copy(command.output, STDOUT_FILENO));
  tails.emplace_back(std::move(errors.ours), command.kept_bytes, copy(command.errors, STDERR_FILENO));
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int refused = handle.is_open() ? 0 : errno;
  auto child = std::make_unique<RunningChild>(pid, std::move(handle), started, std::move(tails));
  if (refused != 0) return cannot_start(program, refused);  // destroying `child` kills it
  return std::unique_ptr<ChildProcess>(std::move(child));
}

Result<ChildOutcome> run_child(const ChildCommand& command, const ChildLimits& limits, const ChildStop* stop) {
  LOCKSTEP_TRY(const std::unique_ptr<ChildProcess> child, ChildProcess::start(command));
  return child->wait(limits, stop);
}

}  // namespace lockstep::process
