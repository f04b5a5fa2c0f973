#include "engine/model/identity.h"

#include <fmt/format.h>

#include "runtime/core/field_list.h"
#include "runtime/core/hash.h"

namespace lockstep::model {

Result<std::string> identity_of(const Model& model, const EngineOptions& options, const device::BackendDriver& driver) {
  LOCKSTEP_TRY(const std::string weights, model.hash_of_weights());
  Fingerprint identity;
  identity.add(fields_to_text(model.spec())).add(weights).add(to_string(model.dtype()));
  identity.add(options.partition.numerics).add(options.partition.experts);
  identity.add(driver.name()).add(driver.statement(options.backend_options));
  return fmt::format("{:016x}", identity.value());
}

}  // namespace lockstep::model
