// Command-line options of `plan`.
#include <CLI/CLI.hpp>

#include "launcher/cli/backend_options.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

constexpr int kMostRanks = 4096;

void add_machine_options(CLI::App& app, MachineOptions& machine, int64_t& probe_mib) {
  begin_section(app, "Machine (without any of these a machine is assumed, and said so)");
  const auto rate = [&](const char* name, std::optional<double>& value, const char* unit, const char* help) {
    return app.add_option(name, value, help)->check(CLI::PositiveNumber)->type_name(unit);
  };
  rate("--bandwidth", machine.bandwidth, "GB/S", "Memory that one rank reads a second");
  rate("--flops", machine.flops, "GFLOP/S", "Floating-point operations of one rank, in the model's type");
  rate("--host-bandwidth", machine.host_bandwidth, "GB/S", "Memory that all ranks of a host read together");
  rate("--host-flops", machine.host_flops, "GFLOP/S", "Floating-point operations of all ranks of a host together");
  app.add_option("--ranks-per-host", machine.ranks_per_host, "Ranks that share a host; default: all")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("N");
  app.add_option("--rank-cores", machine.rank_cores,
                 "With --measure or --probe: cores that every rank has; default: the ranks divide those measured")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--link-latency-us", machine.link_latency_us, "Microseconds of one message between ranks")
      ->check(CLI::NonNegativeNumber)
      ->type_name("US");
  rate("--link-bandwidth", machine.link_bandwidth, "GB/S", "What a rank receives from others a second");
  app.add_option("--host-link-latency-us", machine.host_link_latency_us,
                 "The same between hosts (--ranks-per-host); default: as between ranks")
      ->check(CLI::NonNegativeNumber)
      ->type_name("US");
  rate("--host-link-bandwidth", machine.host_link_bandwidth, "GB/S", "The same between hosts");
  const auto share = [&](const char* name, double& value, const char* help) {
    app.add_option(name, value, help)->check(CLI::Range(0.01, 1.0))->capture_default_str()->type_name("R");
  };
  share("--of-bandwidth", machine.of_bandwidth, "What kernels reach of the bandwidth, as bench reports it");
  share("--of-peak", machine.of_peak, "What kernels reach of the FLOP/s, as bench reports it");
  auto* probe = app.add_option("--probe", machine.probe, "A file of bench --json: its probe is the machine");
  probe->type_name("F.json");
  app.add_flag("--measure", machine.measure, "Measure this machine (takes seconds)")->excludes(probe);
  app.add_option("--probe-mib", probe_mib, "With --measure: MiB that a thread reads; default: what no cache holds")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->needs("--measure")
      ->type_name("N");
}

}  // namespace

void add_plan(CLI::App& parent, PlanCommand& command, int64_t& probe_mib) {
  CLI::App& app = *parent.add_subcommand(
      "plan", "Say which tensor-parallel degrees work, what they need and how fast they should be; reads no weights");
  add_model_options(app, command.model, command.engine);
  app.remove_option(app.get_option("--tp"));
  app.get_option("--model")->required(false)->description("Hugging Face directory; only its config.json is read");
  app.get_option("--batch-size")->description("Sequences at once; default: 1");
  app.get_option("--max-seq-len")->description("Tokens that a slot can hold; default: 2048, or what the model can");
  app.add_option("--config", command.config, "A config.json, instead of --model")->excludes("--model")->type_name("F");
  begin_section(app, "Plan");
  app.add_option("--max-tp", command.max_tp, "The degrees 1 to N")
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--prompt-tokens", command.prompt_tokens, "Tokens of a prompt; default: 512, or what a slot leaves")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->type_name("N");
  app.add_option("--new-tokens", command.new_tokens, "Tokens that follow")
      ->check(CLI::Range(int64_t{2}, kMostTokens))
      ->capture_default_str()
      ->type_name("N");
  add_memory_budget(app, command.engine);
  app.add_option("--detail", command.detail, "Print each rank of this degree")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("P");
  app.add_option("--json", command.json, "Write all of it to this file")->type_name("OUT");
  app.add_option("--backend", command.engine.backend,
                 "Plan for this backend's devices: degrees, memory and limits are theirs")
      ->check(CLI::IsMember(backends_with(device::OptionUse::kPlanning)))
      ->type_name("NAME");
  add_machine_options(app, command.machine, probe_mib);
  add_backend_options(app, device::OptionUse::kPlanning, command.engine.backend_options);
  app.final_callback([&app] {
    if (app.count("--model") + app.count("--config") == 0) throw CLI::RequiredError("--model or --config");
  });
}

}  // namespace lockstep::launcher
