#include <CLI/CLI.hpp>

#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

void add_compiler(CLI::App& app, NeuronOptions& options) {
  app.add_option("--neuron-target", options.target, "Devices that are compiled for: trn1, trn2 or inf2")
      ->check(CLI::IsMember({"trn1", "trn2", "inf2"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--neuron-cc", options.compiler, "AWS's compiler: a path, or a name that PATH knows")
      ->capture_default_str()
      ->type_name("PROGRAM");
  app.add_option("--neuron-cc-flags-prefill", options.prefill_flags,
                 "Added to the compiler's command line for prefill steps, as one word: \"-O1 --lnc=1\"")
      ->type_name("FLAGS");
  app.add_option("--neuron-cc-flags-decode", options.decode_flags, "The same for decode steps")->type_name("FLAGS");
  app.add_option("--neuron-compile-deadline-s", options.compile_deadline_s, "Seconds that one compilation may take")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("S");
}

constexpr const char* kTitle = "AWS Neuron (--backend neuron; docs/neuron.md)";

}  // namespace

void add_neuron_compiler_options(CLI::App& app, NeuronOptions& options) {
  begin_section(app, kTitle);
  add_compiler(app, options);
}

void add_neuron_options(CLI::App& app, NeuronOptions& options) {
  add_neuron_compiler_options(app, options);
  app.add_option("--neuron-runtime", options.runtime,
                 "The Neuron runtime: a file, or a name that the system or /opt/aws/neuron/lib knows")
      ->capture_default_str()
      ->type_name("LIBRARY");
  app.add_option("--neuron-cores", options.cores,
                 "Cores of each host, one for each of its ranks: how many of the first ones, or which (8-15, 2-2); "
                 "default: the first ones, or what NEURON_RT_VISIBLE_CORES says")
      ->type_name("COUNT|LIST");
  app.add_option("--neuron-load-deadline-s", options.load_deadline_s,
                 "Seconds that starting the runtime, or loading one step on all ranks, may take")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("S");
}

}  // namespace lockstep::launcher
