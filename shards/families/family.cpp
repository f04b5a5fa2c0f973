#include "shards/families/family.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::families {
namespace {

struct Row {
  std::string_view model_type;
  BuildStep build;
};

constexpr std::array<Row, 1> kFamilies = {{{"llama", build_llama}}};

}  // namespace

Result<BuildStep> find_family(const checkpoint::ModelSpec& spec) {
  LOCKSTEP_TRY_VOID(checkpoint::rope_table(spec));  // the builders rely on it
  std::string known;
  for (const Row& row : kFamilies) {
    if (row.model_type == spec.model_type) return row.build;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.model_type);
  }
  return Error{ErrorKind::kUnsupported,
               fmt::format("[shards/families] cannot build the model: found model_type \"{}\", "
                           "expected one of {}; use a model of these families",
                           spec.model_type, known)};
}

}  // namespace lockstep::families
