#include "shards/families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "shards/families/decoder.h"

namespace lockstep::families {
namespace {

struct Family {
  std::string_view model_type;
  Layout layout;
  Norm norm;
  Scaled scaled = Scaled::kOfIds;
};

// What else a family has (biases, windows, caps, sinks, rotations, experts) is in its spec; README.md names the papers.
constexpr Family kFamilies[] = {
    {"bloom", Layout::kNormedEmbedding, Norm::kLayer},
    {"cohere", Layout::kParallelOneNorm, Norm::kLayerNoBias},
    {"cohere2", Layout::kParallelOneNorm, Norm::kLayerNoBias},
    {"deepseek_v2", Layout::kSequential, Norm::kRms},
    {"deepseek_v3", Layout::kSequential, Norm::kRms},
    {"dots1", Layout::kSequential, Norm::kRms},
    {"ernie4_5", Layout::kSequential, Norm::kRms},
    {"ernie4_5_moe", Layout::kSequential, Norm::kRms},
    {"exaone4", Layout::kNormedBlocks, Norm::kRms},
    {"exaone_moe", Layout::kSequential, Norm::kRms},
    {"falcon", Layout::kParallelTwoNorms, Norm::kLayer},  // one norm, or sequential, if its config says so
    {"gemma2", Layout::kSandwich, Norm::kRmsPlusOne},
    {"gemma3_text", Layout::kSandwich, Norm::kRmsPlusOne},
    {"gemma3n_text", Layout::kStreams, Norm::kRmsRoundedOnce},
    {"gemma4_text", Layout::kSandwich, Norm::kRmsRoundedOnce},
    {"glm4", Layout::kSandwich, Norm::kRms},
    {"glm4_moe", Layout::kSequential, Norm::kRms},
    {"glm4_moe_lite", Layout::kSequential, Norm::kRms},
    {"gpt2", Layout::kSequential, Norm::kLayer},
    {"gpt_neox", Layout::kParallelTwoNorms, Norm::kLayer},  // sequential if its config says so
    {"gpt_oss", Layout::kSequential, Norm::kRms},
    {"gptj", Layout::kParallelOneNorm, Norm::kLayer},
    {"granite", Layout::kSequential, Norm::kRms, Scaled::kAll},
    {"granitemoe", Layout::kSequential, Norm::kRms, Scaled::kAll},
    {"hunyuan_v1_dense", Layout::kSequential, Norm::kRms},
    {"hy_v3", Layout::kSequential, Norm::kRms},
    {"llama", Layout::kSequential, Norm::kRms},
    {"llama4_text", Layout::kSequential, Norm::kRms},
    {"minimax_m2", Layout::kSequential, Norm::kRms},
    {"ministral", Layout::kSequential, Norm::kRms},
    {"ministral3", Layout::kSequential, Norm::kRms},
    {"mistral", Layout::kSequential, Norm::kRms},
    {"mistral4", Layout::kSequential, Norm::kRms},
    {"mixtral", Layout::kSequential, Norm::kRms},
    {"nemotron", Layout::kSequential, Norm::kLayerPlusOne},
    {"olmo2", Layout::kNormedBlocks, Norm::kRms},
    {"olmo3", Layout::kNormedBlocks, Norm::kRms},
    {"olmoe", Layout::kSequential, Norm::kRms},
    {"opt", Layout::kSequential, Norm::kLayer},  // post-norm if its config says so
    {"phi", Layout::kParallelOneNorm, Norm::kLayer},
    {"phi3", Layout::kSequential, Norm::kRms},
    {"qwen2", Layout::kSequential, Norm::kRms},
    {"qwen2_moe", Layout::kSequential, Norm::kRms},
    {"qwen3", Layout::kSequential, Norm::kRms},
    {"qwen3_moe", Layout::kSequential, Norm::kRms},
    {"qwen3_5_moe_text", Layout::kSequential, Norm::kRmsPlusOne},
    {"qwen3_5_text", Layout::kSequential, Norm::kRmsPlusOne},
    {"qwen3_next", Layout::kSequential, Norm::kRmsPlusOne},
    {"seed_oss", Layout::kSequential, Norm::kRms},
    {"smollm3", Layout::kSequential, Norm::kRms},
    {"stablelm", Layout::kParallelOneNorm, Norm::kLayer},  // sequential if its config says so
    {"starcoder2", Layout::kSequential, Norm::kLayer},
};

}  // namespace

int64_t StepShape::rows() const {
  switch (kind) {
    case StepKind::kPrefill:
    case StepKind::kScore: return chunk;
    case StepKind::kDecode: return batch > 0 ? batch : slots;
    case StepKind::kVerify: return slots * (1 + drafts);
  }
  return 0;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

Result<Step> build_step(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                        const StepShape& shape) {
  if (spec.positions == checkpoint::Positions::kRotary) {  // the builder relies on the tables
    LOCKSTEP_TRY_VOID(checkpoint::rope_table(spec, spec.rope));
    if (spec.local_rope) LOCKSTEP_TRY_VOID(checkpoint::rope_table(spec, *spec.local_rope));
  }
  const auto* const family = std::ranges::find(kFamilies, spec.model_type, &Family::model_type);
  if (family == std::end(kFamilies)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards/families] cannot build the model: found model_type \"{}\", expected one of {}; "
                             "use a model of these families",
                             spec.model_type, fmt::join(family_names(), ", "))};
  }
  if (spec.layer_input_size > 0 && shape.embeddings == StepShape::Embeddings::kMixed) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards/families] cannot read prompts of embeddings: found \"{}\", whose layers read an "
                             "embedding of each token's id, expected a model without such inputs; give token ids",
                             spec.model_type)};
  }
  return build_layers(StepBuilder(spec, partition, shape, family->norm), family->layout, family->scaled);
}

}  // namespace lockstep::families
