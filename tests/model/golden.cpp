#include "tests/model/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::model {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "family_";
constexpr double kTolerance = 1e-4;  // of the scale: float32 rounding moves the logits by about 1e-6 of it

HashedTensor tensor_of(const json& tensor) {
  HashedTensor result{tensor["name"], Shape(tensor["shape"].get<std::vector<int64_t>>()), {}};
  const std::string dtype = tensor["dtype"];
  if (dtype == "order") {
    result.elements = HashedOrder{tensor["step"], tensor["group"]};
  } else if (tensor.contains("lowest")) {
    result.elements = HashedBytes{tensor["lowest"], tensor["highest"], dtype, tensor.value("signed", false)};
  } else {
    HashedFloats floats{tensor["centre"], tensor["spread"]};
    if (dtype == "F16") floats.dtype = DType::kFloat16;
    if (dtype == "BF16") floats.dtype = DType::kBFloat16;
    result.elements = floats;
  }
  return result;
}

json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  LOCKSTEP_CHECK(file.good(), path.string());
  return json::parse(file);
}

/// The model of a golden, without prompts.
Golden model_of(const std::string& name, const json& golden) {
  Golden result{.name = name,
                .family = golden["family"],
                .config = golden["config"].dump(),
                .seed = golden["seed"],
                .scale = golden["scale"]};
  for (const json& tensor : golden["tensors"]) result.tensors.push_back(tensor_of(tensor));
  return result;
}

/// A folder that no other test uses, in this program or another.
std::filesystem::path folder_for(const std::string& golden) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = fmt::format("lockstep_{}_{}_{}", test->test_suite_name(), test->name(), golden);
  std::replace(name.begin(), name.end(), '/', '_');
  return std::filesystem::path(::testing::TempDir()) / name;
}

}  // namespace

std::vector<Row> Golden::rows() const {
  std::vector<Row> rows;
  for (size_t i = 0; i < prompts.size(); ++i) {
    rows.push_back({prompts[i], {.max_new_tokens = static_cast<int32_t>(tokens[i].size())}});
  }
  return rows;
}

std::vector<std::string> golden_names(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    const std::string name = file.path().stem().string();
    if (name.starts_with(kPrefix)) names.push_back(name.substr(kPrefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<size_t> cuts_in_turn(const std::filesystem::path& directory, const std::string& name, size_t all,
                                 size_t count) {
  if (std::getenv("LOCKSTEP_EVERY_CUT") != nullptr) count = all;
  const std::vector<std::string> names = golden_names(directory);
  const auto first = static_cast<size_t>(std::ranges::find(names, name) - names.begin()) * count;
  std::vector<size_t> cuts;
  for (size_t i = 0; i < count; ++i) cuts.push_back((first + i) % all);
  return cuts;
}

Golden read_golden(const std::filesystem::path& directory, const std::string& name) {
  const json golden = read_json(directory / fmt::format("{}{}.json", kPrefix, name));
  Golden result = model_of(name, golden);
  golden["window"].get_to(result.window);
  golden["stored"].get_to(result.stored);
  golden["prompts"].get_to(result.prompts);
  golden["tokens"].get_to(result.tokens);
  golden["logit_steps"].get_to(result.logit_steps);
  golden["logits"].get_to(result.logits);
  if (golden.contains("long_run")) {
    result.long_run = LongRun{golden["long_run"]["prompt"], golden["long_run"]["tokens"]};
  }
  return result;
}

Golden read_long_prompt(const std::filesystem::path& directory) {
  const json golden = read_json(directory / "long_prompt.json");
  Golden result = model_of("long_prompt", golden);
  const int vocabulary = golden["config"]["vocab_size"];
  std::vector<int32_t>& prompt = result.prompts.emplace_back();
  for (int i = 0; i < golden["prompt_length"]; ++i) {
    const double unit = hashed_unit(0, "long prompt", static_cast<uint64_t>(i));
    prompt.push_back(static_cast<int32_t>((unit + 1) / 2 * (vocabulary - 3)) + 3);
  }
  golden["tokens"].get_to(result.tokens.emplace_back());
  result.logit_steps = {0};
  golden["logits"].get_to(result.logits.emplace_back());
  return result;
}

GoldenModel::GoldenModel(const Golden& golden, HashedModelLayout layout) : path_(folder_for(golden.name)) {
  std::filesystem::remove_all(path_);
  write_hashed_model(path_, golden.config, golden.tensors, golden.seed, layout);
}

GoldenModel::~GoldenModel() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void record(const Golden& golden, const Support& support) {
  using ::testing::Test;
  Test::RecordProperty("family", golden.family);
  Test::RecordProperty("model", golden.name);
  Test::RecordProperty("window", golden.window);
  Test::RecordProperty("stored", golden.stored);
  Test::RecordProperty("phase", support.phase);
  Test::RecordProperty("tp", support.ranks);
  Test::RecordProperty("files", support.files);
  Test::RecordProperty("backend", support.backend);
  Test::RecordProperty("experts", support.experts);
}

void record_quantised(const Golden& golden, const char* backend) {
  using ::testing::Test;
  const auto config = nlohmann::json::parse(golden.config);
  const auto& quantisation = config["quantization_config"];
  const std::string method = quantisation["quant_method"], form = quantisation.value("format", "");
  Test::RecordProperty("quantised", golden.name);
  Test::RecordProperty("model_type", std::string(config["model_type"]));
  Test::RecordProperty("method", form.empty() ? method : method + ", " + form);
  Test::RecordProperty("backend", backend);
}

double largest_difference(const float* a, const float* b, size_t count) {
  double largest = 0.0;
  for (size_t i = 0; i < count; ++i) {
    const double here = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(here)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, here);
  }
  return largest;
}

void expect_golden(const Golden& golden, const std::vector<Row>& rows, const std::vector<RowAnswer>& answers,
                   Compared compared) {
  ASSERT_EQ(answers.size(), golden.prompts.size());
  ASSERT_EQ(rows.size(), answers.size());
  for (size_t row = 0; row < answers.size(); ++row) {
    SCOPED_TRACE(::testing::Message() << "row " << row);
    const RowAnswer& answer = answers[row];
    // A row may be continued less far than the golden goes.
    ASSERT_EQ(answer.tokens.size(), static_cast<size_t>(rows[row].parameters.max_new_tokens));
    ASSERT_LE(answer.tokens.size(), golden.tokens[row].size());
    EXPECT_THAT(answer.tokens, ::testing::ElementsAreArray(golden.tokens[row].data(), answer.tokens.size()));
    EXPECT_EQ(answer.reason, generation::FinishReason::kLength);
    if (compared == Compared::kTokens) continue;
    ASSERT_EQ(answer.logits.size(), answer.tokens.size() * golden.logits[row].front().size());
    for (size_t kept = 0; kept < golden.logit_steps.size(); ++kept) {
      const size_t step = golden.logit_steps[kept], vocabulary = golden.logits[row][kept].size();
      // Logits after a wrong token are of another text.
      if (step >= answer.tokens.size() ||
          !std::equal(answer.tokens.begin(), answer.tokens.begin() + step, golden.tokens[row].begin()))
        break;
      const float* ours = answer.logits.data() + step * vocabulary;
      EXPECT_LE(largest_difference(ours, golden.logits[row][kept].data(), vocabulary), kTolerance * golden.scale)
          << "step " << step;
    }
  }
}

}  // namespace lockstep::model
