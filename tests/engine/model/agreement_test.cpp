// Errors of two ranks with different models or static sizes, for every field, and every key of every family's
// config.json.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/drivers.h"
#include "engine/group/rank_threads.h"
#include "engine/model/plan.h"
#include "runtime/checkpoint/config_difference.h"
#include "tests/changed_fields.h"
#include "tests/model/tiny_models.h"

namespace lockstep::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A plan of `spec` with the facts that are equal on all ranks.
Plan plan_of(const checkpoint::ModelSpec& spec, const shards::ShardOptions& shard = {}) {
  Plan plan;
  plan.model = {.spec = spec, .partition = {}, .shard = shard, .checkpoint = std::nullopt};
  return plan;
}

std::string statement_of(const Plan& plan) { return statement_of(plan, {}, *engine::find_driver("cpu").value()); }

/// The results of two ranks; rank r states `statements[r]` and reads `configs[r]`.
void expect_refused(const std::array<std::string, 2>& statements, const std::array<const model::TinyModel*, 2>& models,
                    const std::function<void(const Error&)>& check) {
  const auto ranks = Group::threads(2).value();
  const auto ended = group::on_each_rank(group::State::of(*ranks), [&](group::Member& member) -> Result<void> {
    const auto rank = static_cast<size_t>(member.rank());
    const auto agreed = agree_on_plan(member, statements[rank], models[rank]->path() / "config.json");
    EXPECT_FALSE(agreed.has_value());
    if (agreed.has_value()) return ok();
    EXPECT_EQ(agreed.error().kind, ErrorKind::kFailedPrecondition);
    check(agreed.error());
    return ok();
  });
  EXPECT_TRUE(ended.has_value());
}

class AgreeOnPlan : public ::testing::Test {
 protected:
  void expect_named(const Plan& other, const std::string& line) {
    SCOPED_TRACE(line);
    const std::string expected = statement_of(plan_), found = statement_of(other);
    expect_refused({expected, found}, {&model_, &model_}, [&](const Error& error) {
      EXPECT_THAT(error.message, AllOf(HasSubstr("found '" + line + " "), HasSubstr("expected '" + line + " ")));
    });
  }

  model::TinyModel model_{model::kTinyLlama};
  checkpoint::ModelSpec spec_ = checkpoint::parse_spec(model::kTinyLlama, "tiny").value();
  Plan plan_ = plan_of(spec_);
};

TEST_F(AgreeOnPlan, NamesEveryFieldOfTheModelThatDiffers) {
  for_each_changed_field(spec_, [&](const std::string& name, const checkpoint::ModelSpec& changed) {
    if (name == "local_rope" || name == "global_heads" || name == "latent") return;  // below
    const std::string line = name.starts_with("formats.") ? "--weights" : "model: " + name;
    expect_named(plan_of(changed), name == "cache_type" ? "--kv-dtype" : line);
  });
}

TEST_F(AgreeOnPlan, NamesEveryFieldOfTheRopeOfLayersWithAWindow) {
  spec_.local_rope = spec_.rope;
  plan_ = plan_of(spec_);
  for_each_changed_field(spec_.rope, [&](const std::string& name, const checkpoint::RopeSpec& changed) {
    checkpoint::ModelSpec other = spec_;
    other.local_rope = changed;
    expect_named(plan_of(other), "model: local_rope." + name);
  });
}

TEST_F(AgreeOnPlan, NamesEveryFieldOfTheHeadsOfLayersWithoutAWindow) {
  spec_.global_heads.emplace();
  plan_ = plan_of(spec_);
  for_each_changed_field(*spec_.global_heads, [&](const std::string& name, const checkpoint::HeadShape& changed) {
    checkpoint::ModelSpec other = spec_;
    other.global_heads = changed;
    expect_named(plan_of(other), "model: global_heads." + name);
  });
}

TEST_F(AgreeOnPlan, NamesEveryFieldOfLatentAttention) {
  spec_.latent.emplace();
  plan_ = plan_of(spec_);
  for_each_changed_field(*spec_.latent, [&](const std::string& name, const checkpoint::LatentAttention& changed) {
    checkpoint::ModelSpec other = spec_;
    other.latent = changed;
    expect_named(plan_of(other), "model: latent." + name);
  });
}

TEST_F(AgreeOnPlan, NamesTheRopeThatOnlyOneRankHas) {
  checkpoint::ModelSpec other = spec_;
  other.local_rope = spec_.rope;
  expect_refused({statement_of(plan_), statement_of(plan_of(other))}, {&model_, &model_}, [](const Error& error) {
    EXPECT_THAT(error.message,
                HasSubstr("found 'model: local_rope.kind 0' on rank 1, expected 'model: local_rope none'"));
  });
}

TEST_F(AgreeOnPlan, NamesEveryStaticSizeThatDiffers) {
  for_each_changed_field(shards::ShardOptions(), [&](const std::string& name, const shards::ShardOptions& changed) {
    expect_named(plan_of(spec_, changed), name == "dtype" ? "--dtype" : "model: " + name);
  });
}

TEST_F(AgreeOnPlan, ComparesTheDraftModelToo) {
  plan_.draft = plan_.model;
  Plan other = plan_;
  other.draft->spec.rope.theta = 500000.0;
  expect_named(other, "draft model: rope.theta");
}

TEST_F(AgreeOnPlan, NamesTheKeyOfTheConfigWithBothValues) {
  json config = json::parse(model::kTinyGemma3);
  config["rope_local_base_freq"] = 20000.0;
  const model::TinyModel here(model::kTinyGemma3, "here"), there(config.dump(), "there");
  const auto statement = [](const model::TinyModel& model) {
    return statement_of(plan_of(checkpoint::read_spec(model.path() / "config.json").value()));
  };
  expect_refused({statement(here), statement(there)}, {&here, &there}, [](const Error& error) {
    EXPECT_THAT(error.message, AllOf(HasSubstr("found 'model: local_rope.theta 20000' on rank 1"),
                                     HasSubstr("rope_local_base_freq 20000.0 on rank 1, 10000.0 on rank 0")));
  });
}

// ---- every key of every family ----

/// Keys that a family reads although its golden's config leaves them out.
constexpr const char* kMoreKeys[] = {"attention_bias",
                                     "attn_logit_softcapping",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "final_logit_softcapping",
                                     "head_dim",
                                     "mlp_bias",
                                     "pad_token_id",
                                     "partial_rotary_factor",
                                     "query_pre_attn_scalar",
                                     "rope_local_base_freq",
                                     "rope_theta",
                                     "rotary_pct",
                                     "scale_attn_by_inverse_layer_idx",
                                     "scale_attn_weights",
                                     "sliding_window",
                                     "sliding_window_pattern",
                                     "swiglu_alpha",
                                     "swiglu_limit",
                                     "tie_word_embeddings",
                                     "use_parallel_residual",
                                     "word_embed_proj_dim",
                                     "do_layer_norm_before",
                                     "enable_bias",
                                     "apply_residual_connection_post_layernorm"};

/// Other values that a file could have where another has `value`.
std::vector<json> others_of(const json& value) {
  if (value.is_boolean()) return {!value.get<bool>(), nullptr};
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    return {number + 1, number * 2, number / 2, 0, -1, 2.5, nullptr};
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    return {std::nextafter(number, 1e300), number * 2, number / 2, 0.0, 1, nullptr};
  }
  if (value.is_string()) return {"linear", "gelu", "llama", "float16", nullptr};
  return {true, false, 1, 2, 4, 64, 0.5, 30.0, 20000.0};  // null, or not there
}

/// Calls `check` for every config that differs from `config` in one value.
void for_each_changed_key(const json& config, const std::function<void(const std::string&, const json&)>& check) {
  json flat = config.flatten();
  for (const char* key : kMoreKeys) {
    if (!config.contains(key)) flat[fmt::format("/{}", key)] = nullptr;
  }
  for (const auto& [path, value] : flat.items()) {
    for (const json& other : others_of(value)) {
      json changed = config;
      changed[json::json_pointer(path)] = other;
      std::string key = path.substr(1);
      std::ranges::replace(key, '/', '.');
      check(key, changed);
    }
  }
}

struct Counts {
  int same = 0, refused = 0, invalid = 0;
};

/// A config with one other value is invalid, means the same, or another statement that names the key.
void judge(const json& config, const checkpoint::ModelSpec& spec, const std::string& key, const json& changed,
           Counts& counts) {
  const auto other = checkpoint::parse_spec(changed.dump(), "changed");
  if (!other.has_value()) {
    ++counts.invalid;
    EXPECT_THAT(exit_code(other.error().kind), ::testing::AnyOf(2, 3));
    return;
  }
  const bool says_the_same = statement_of(plan_of(other.value())) == statement_of(plan_of(spec));
  EXPECT_EQ(says_the_same, other.value() == spec);
  ++(says_the_same ? counts.same : counts.refused);
  if (says_the_same) return;
  const auto keys = checkpoint::differing_keys(changed.dump(), config.dump());
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys.front().key, key);
}

/// Whether `model_type` is another name of one of `texts`, the configs of language models, or holds it among other
/// parts.
bool stands_for_one_of(const std::vector<json>& texts, const std::string& model_type) {
  return std::ranges::any_of(texts, [&](const json& text) {
    json renamed = text;
    renamed["model_type"] = model_type;
    const json whole = {{"model_type", model_type}, {"text_config", text}};
    return std::ranges::any_of(std::array{renamed, whole}, [&](const json& config) {
      const auto spec = checkpoint::parse_spec(config.dump(), "config");
      return spec.has_value() && spec.value().model_type == text.at("model_type");
    });
  });
}

TEST(ConfigKeys, EveryOneOfEveryFamilyIsInvalidOrMeansTheSameOrIsNamed) {
  std::set<std::string> families;
  std::vector<json> configs;
  for (const auto& file : std::filesystem::directory_iterator(LOCKSTEP_GOLDENS_DIR)) {
    if (!file.path().filename().string().starts_with("family_")) continue;
    SCOPED_TRACE(file.path().filename().string());
    const json config = json::parse(std::ifstream(file.path())).at("config");
    const checkpoint::ModelSpec spec = checkpoint::parse_spec(config.dump(), "golden").value();
    families.insert(spec.model_type);
    configs.push_back(config);
    Counts counts;
    for_each_changed_key(config, [&](const std::string& key, const json& changed) {
      SCOPED_TRACE(fmt::format("{} {}", key, changed.value(json::json_pointer("/" + key), json()).dump()));
      judge(config, spec, key, changed, counts);
    });
    EXPECT_GT(counts.same, 10);
    EXPECT_GT(counts.refused, 10);
    EXPECT_GT(counts.invalid, 10);
  }
  for (const std::string& model_type : checkpoint::supported_model_types()) {
    EXPECT_TRUE(families.contains(model_type) || stands_for_one_of(configs, model_type)) << model_type;
  }
}

}  // namespace
}  // namespace lockstep::model
