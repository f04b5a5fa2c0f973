#include "shards/families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace lockstep::families {
namespace {

struct Row {
  std::string_view model_type;
  BuildStep build;
};

constexpr std::array kFamilies = {
    Row{"bloom", build_bloom},     Row{"gemma2", build_gemma2},     Row{"gemma3_text", build_gemma3},
    Row{"gpt2", build_gpt2},       Row{"gpt_neox", build_gpt_neox}, Row{"gpt_oss", build_gpt_oss},
    Row{"gptj", build_gptj},       Row{"llama", build_llama},       Row{"ministral", build_ministral},
    Row{"mistral", build_mistral}, Row{"mixtral", build_mixtral},   Row{"opt", build_opt},
    Row{"phi3", build_phi3},       Row{"qwen2", build_qwen2},       Row{"qwen3", build_qwen3},
};

}  // namespace

int64_t StepShape::rows() const {
  switch (phase) {
    case Phase::kPrefill: return chunk;
    case Phase::kDecode: return batch > 0 ? batch : slots;
    case Phase::kVerify: return slots * (1 + drafts);
  }
  return 0;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Row& row : kFamilies) names.emplace_back(row.model_type);
  return names;
}

Result<BuildStep> find_family(const checkpoint::ModelSpec& spec) {
  if (spec.positions == checkpoint::Positions::kRotary) {  // the builders rely on the tables
    LOCKSTEP_TRY_VOID(checkpoint::rope_table(spec, spec.rope));
    if (spec.local_rope) LOCKSTEP_TRY_VOID(checkpoint::rope_table(spec, *spec.local_rope));
  }
  for (const Row& row : kFamilies) {
    if (row.model_type == spec.model_type) return row.build;
  }
  return Error{ErrorKind::kUnsupported,
               fmt::format("[shards/families] cannot build the model: found model_type \"{}\", expected one of {}; use "
                           "a model of these families",
                           spec.model_type, fmt::join(family_names(), ", "))};
}

}  // namespace lockstep::families
