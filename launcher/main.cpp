// The lockstep program: reads the command line, runs the command, reports errors.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launcher/cli/command_line.h"
#include "launcher/commands/generate.h"
#include "launcher/measure/suite/suite_tool.h"
#include "launcher/process/open_files.h"
#include "runtime/core/guard.h"

namespace {

using namespace lockstep;

/// The exit code of a completed command.
Result<int> run(const launcher::Command& command) {
  struct Runner {
    static Result<int> ended(const Result<void>& result) {
      if (!result.has_value()) return result.error();
      return 0;
    }
    Result<int> operator()(const launcher::GenerateCommand& c) const { return ended(launcher::generate(c)); }
    Result<int> operator()(const launcher::ScoreCommand& c) const { return ended(launcher::score(c)); }
    Result<int> operator()(const launcher::EngineCommand& c) const { return ended(launcher::serve_engine(c)); }
    Result<int> operator()(const launcher::ServeCommand& c) const { return ended(launcher::serve(c)); }
    Result<int> operator()(const launcher::ControlCommand& c) const { return ended(launcher::control(c)); }
    Result<int> operator()(const launcher::TokenizeCommand& c) const { return ended(launcher::tokenize(c)); }
    Result<int> operator()(const launcher::QuantiseCommand& c) const { return ended(launcher::quantise(c)); }
    Result<int> operator()(const launcher::VerifyCommand& c) const { return ended(launcher::verify(c)); }
    Result<int> operator()(const launcher::ExplainCommand& c) const { return ended(launcher::explain(c)); }
    Result<int> operator()(const launcher::PlanCommand& c) const { return ended(launcher::plan(c)); }
    Result<int> operator()(const launcher::BenchCommand& c) const {
      return ended(c.suite.name.empty() ? launcher::bench(c) : launcher::exec_suite_tool(c));
    }
    Result<int> operator()(const launcher::SweepCommand& c) const { return ended(launcher::sweep(c)); }
    Result<int> operator()(const launcher::DoctorCommand& c) const { return launcher::doctor(c); }
    Result<int> operator()(const launcher::SuperviseCommand& c) const {
      return launcher::supervise(c, launcher::parse_generate_command);
    }
    Result<int> operator()(const launcher::CompileCommand& c) const { return ended(launcher::compile(c)); }
    Result<int> operator()(const launcher::ExportCommand& c) const { return ended(launcher::export_artifacts(c)); }
    Result<int> operator()(const launcher::PrintedText& printed) const {
      fmt::print("{}", printed.text);
      return 0;
    }
  };
  return std::visit(Runner{}, command);
}

/// Fails where some of what was written to stdout is lost.
Result<void> flush_output() {
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  if (is_flushed && std::ferror(stdout) == 0) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] cannot write to stdout: found '{}', expected room for all of the output; a part "
                           "of it is lost, direct it to another file",
                           errno != 0 ? std::strerror(errno) : "an error while it was written")};
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  Result<void> result = guarded("launcher", [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(launcher::require_open_files());
    LOCKSTEP_TRY(const launcher::Command command, launcher::parse_command_line(argc, argv));
    LOCKSTEP_TRY(code, run(command));
    return flush_output();
  });
  const bool is_thrown = !result.has_value() && result.error().kind == ErrorKind::kInternal;
  if (is_thrown && std::ferror(stdout) != 0) result = flush_output();  // by fmt::print
  if (result.has_value()) return code;
  std::fflush(stdout);
  std::fputs(fmt::format("lockstep: {}\n", result.error().message).c_str(), stderr);  // fmt::print throws if it is full
  std::fflush(stderr);
  // Not exit(): the destructors of MPI and CAF would wait for peers that may have ended.
  std::_Exit(exit_code(result.error().kind));
}
