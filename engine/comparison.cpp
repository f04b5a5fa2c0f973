// What ranks and groups of ranks compare or check before an engine opens.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/drivers.h"
#include "engine/model/plan.h"
#include "lockstep/engine.h"

namespace lockstep {
namespace {

std::string or_default(const std::optional<int64_t>& value) { return value ? fmt::format("{}", *value) : "default"; }

/// The driver of the options' backend, which takes its options.
Result<const device::BackendDriver*> checked_driver(const EngineOptions& options) {
  LOCKSTEP_TRY(const device::BackendDriver* const driver, engine::find_driver(options.backend));
  LOCKSTEP_TRY_VOID(driver->check_options(options.backend_options));
  return driver;
}

}  // namespace

Result<std::string> statement_of(const EngineOptions& options) {
  LOCKSTEP_TRY(const device::BackendDriver* const driver, checked_driver(options));
  std::string text =
      fmt::format("--prefill-chunk {}\n--batch-size {}\n--max-seq-len {}\n--draft-model {}\n", options.prefill_chunk,
                  or_default(options.slots), or_default(options.capacity), options.drafting.model ? "given" : "none");
  text += fmt::format("--trace, --metrics or --profile {}\n--trace-events {}\n",
                      options.observe.is_on() ? "given" : "none", options.observe.trace_events);
  text += fmt::format("--backend {}\n--communicator {}\n", options.backend, options.communicator);
  return text + driver->statement(options.backend_options);
}

Result<std::string> backend_settings_of(const EngineOptions& options) {
  LOCKSTEP_TRY(const device::BackendDriver* const driver, checked_driver(options));
  return engine::settings_of(*driver, options.backend_options);
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const device::BackendDriver* driver : engine::drivers()) names.emplace_back(driver->name());
  return names;
}

Result<void> check_ranks(const Model& model, const EngineOptions& options, int ranks) {
  LOCKSTEP_TRY_VOID(model::divide_model(options.partition, model.spec(), ranks, options.slots));
  return ok();
}

}  // namespace lockstep
