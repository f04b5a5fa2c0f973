// The lockstep program: reads the command line, runs the command, turns an error into a message and an exit code.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "launcher/commands.h"
#include "launcher/ranks/guard.h"

namespace {

using namespace lockstep;

Result<void> run(const launcher::Command& command) {
  struct Runner {
    Result<void> operator()(const launcher::GenerateCommand& c) const { return launcher::generate(c); }
    Result<void> operator()(const launcher::TokenizeCommand& c) const { return launcher::tokenize(c); }
    Result<void> operator()(const launcher::ExplainCommand& c) const { return launcher::explain(c); }
    Result<void> operator()(const launcher::BenchCommand& c) const { return launcher::bench(c); }
    Result<void> operator()(const launcher::DoctorCommand& c) const { return launcher::doctor(c); }
    Result<void> operator()(const launcher::PrintedText& printed) const {
      fmt::print("{}", printed.text);
      return ok();
    }
  };
  return std::visit(Runner{}, command);
}

}  // namespace

int main(int argc, char** argv) {
  const Result<void> result = launcher::guarded([&]() -> Result<void> {
    LOCKSTEP_TRY(const launcher::Command command, launcher::parse_command_line(argc, argv));
    return run(command);
  });
  std::fflush(stdout);
  if (result.has_value()) return 0;
  const bool is_said = result.error().message.empty();
  if (!is_said) fmt::print(stderr, "lockstep: {}\n", result.error().message);
  std::fflush(stderr);
  // Not exit(): the destructors of MPI and CAF would wait for peers that may be gone.
  std::_Exit(exit_code(result.error().kind));
}
