// Goldens of families: a tiny model, prompts, and Hugging Face transformers' answers in float32. The files
// tests/model/goldens/family_*.json are written by tools/make_family_goldens.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/model/hashed_weights.h"
#include "tests/model/model_group.h"

namespace lockstep::model {

/// A prompt of several windows and many steps after it.
struct LongRun {
  std::vector<int32_t> prompt, tokens;
};

struct Golden {
  std::string name;    // "gpt2_bare_names"
  std::string family;  // "GPT-2"
  std::string window;  // "none", "some layers" or "every layer"
  std::string stored;  // "hub", "bare", "packed" …: how the tensors are called and packed
  std::string config;  // the text of config.json
  uint64_t seed = 1;
  std::vector<HashedTensor> tensors;
  std::vector<std::vector<int32_t>> prompts, tokens;    // [row][…]
  double scale = 1.0;                                   // the largest logit
  std::vector<size_t> logit_steps;                      // the steps whose logits are kept
  std::vector<std::vector<std::vector<float>>> logits;  // [row][kept step][vocabulary]
  std::optional<LongRun> long_run;

  /// The rows of `prompts`, each to be continued as far as the golden goes.
  std::vector<Row> rows() const;
};

/// The names of the goldens in `directory`, sorted.
std::vector<std::string> golden_names(const std::filesystem::path& directory);

/// Reads the golden called `name`.
Golden read_golden(const std::filesystem::path& directory, const std::string& name);

/// Which `count` of the cuts (or requests …) 0 … `all` − 1 the golden called `name` is tried with: other ones than its
/// neighbours. All of them where LOCKSTEP_EVERY_CUT is set, as in the slow tests.
std::vector<size_t> cuts_in_turn(const std::filesystem::path& directory, const std::string& name, size_t all,
                                 size_t count);

/// Reads long_prompt.json, whose one row is a prompt of 32,768 hashed tokens. Written by
/// tools/make_long_prompt_golden.py.
Golden read_long_prompt(const std::filesystem::path& directory);

/// Writes a golden's model as a Hugging Face directory below the test's temporary directory; the destructor removes it.
class GoldenModel {
 public:
  GoldenModel(const Golden& golden, HashedModelLayout layout);
  ~GoldenModel();
  GoldenModel(const GoldenModel&) = delete;
  GoldenModel& operator=(const GoldenModel&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The subject of a test of a golden, for docs/support.md.
struct Support {
  const char* phase = "decode";  // which also prefills; or "prefill", or "laps" of the window
  int ranks = 1;
  const char* files = "safetensors";
  const char* backend = "cpu";
  const char* experts = "columns";  // how they are divided; or "whole"
};

/// Records the subject of the current test as its properties, for tools/make_support_matrix.py.
void record(const Golden& golden, const Support& support);

/// The same of a test of a quantised checkpoint, on a backend.
void record_quantised(const Golden& golden, const char* backend);

/// The largest difference of two arrays; infinite where it is no number.
double largest_difference(const float* a, const float* b, size_t count);

enum class Compared { kTokens, kTokensAndLogits };

/// Expects the golden's tokens, as many as each of `rows` asks for, and its logits.
void expect_golden(const Golden& golden, const std::vector<Row>& rows, const std::vector<RowAnswer>& answers,
                   Compared compared = Compared::kTokensAndLogits);

}  // namespace lockstep::model
