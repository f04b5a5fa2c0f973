#include "runtime/checkpoint/verified_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/checkpoint/weight_sums.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::checkpoint {
namespace {

constexpr size_t kNamedTensors = 5;

Error not_verified(const std::filesystem::path& model, ErrorKind kind, const std::string& found_and_expected) {
  return {kind, fmt::format("[runtime/checkpoint] cannot verify {}: {}", model.string(), found_and_expected)};
}

/// The names of `differing`, the first few.
std::string names_in_words(const std::vector<std::string>& differing) {
  std::string text;
  for (size_t i = 0; i < std::min(differing.size(), kNamedTensors); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", differing[i]);
  }
  if (differing.size() > kNamedTensors) text += fmt::format(" and {} more", differing.size() - kNamedTensors);
  return text;
}

Result<void> compare(const std::filesystem::path& model, const std::filesystem::path& file, const WeightSums& expected,
                     const WeightSums& found) {
  std::vector<std::string> differing, missing;
  for (const auto& [name, tensor] : found.tensors) {
    const auto other = expected.tensors.find(name);
    if (other == expected.tensors.end()) {
      missing.push_back(name);
    } else if (other->second != tensor) {
      differing.push_back(name);
    }
  }
  if (!differing.empty()) {
    return not_verified(model, ErrorKind::kInvalidArgument,
                        fmt::format("found other values than when {} was written in {} of {} tensors: {}; expected "
                                    "equal sums; fetch the weight files again",
                                    file.string(), differing.size(), found.tensors.size(), names_in_words(differing)));
  }
  for (const auto& [name, tensor] : expected.tensors) {
    if (!found.tensors.contains(name)) missing.push_back(name);
  }
  if (missing.empty() && expected.files == found.files) return ok();
  return not_verified(
      model, ErrorKind::kInvalidArgument,
      fmt::format("found sums of other files in {}{}{}, expected those of the present files; write "
                  "them again with lockstep verify --write --replace",
                  file.string(), missing.empty() ? "" : ", which differ in the tensors ", names_in_words(missing)));
}

/// Fails if other sums than `found` are there and may not be replaced.
Result<void> require_replaceable(const std::filesystem::path& model, const WeightSums& found, SumsAction action) {
  const std::filesystem::path file = path_of_sums(model);
  if (action == SumsAction::kReplace) return ok();
  LOCKSTEP_TRY(const auto text, read_sums_text(model));
  if (!text) return ok();
  const auto present = parse_weight_sums(*text, file.string());
  if (present.has_value() && present.value() == found) return ok();
  return not_verified(model, ErrorKind::kInvalidArgument,
                      fmt::format("found other sums in {}, expected none or equal ones; compare with lockstep verify, "
                                  "or overwrite them with --replace",
                                  file.string()));
}

}  // namespace

Result<VerifiedModel> verify_model(const std::filesystem::path& model, const VerifyOptions& options) {
  const std::filesystem::path file = path_of_sums(model);
  LOCKSTEP_TRY(const auto text, read_sums_text(model));
  std::optional<WeightSums> expected;
  if (options.action == SumsAction::kCheck) {
    if (!text) {
      return not_verified(model, ErrorKind::kNotFound,
                          fmt::format("found no {}, expected the sums of its weights; write them with lockstep verify "
                                      "--write while the files are as they should be",
                                      file.string()));
    }
    LOCKSTEP_TRY(expected, parse_weight_sums(*text, file.string()));
  } else {
    LOCKSTEP_TRY_VOID(check_writable(file, "--write"));
  }
  LOCKSTEP_TRY(const ModelSpec spec, read_spec(model / "config.json"));
  LOCKSTEP_TRY(const auto checkpoint, open_model_checkpoint(model, spec));
  LOCKSTEP_TRY(const WeightSums found, sum_weights(*checkpoint, std::max(1, options.threads)));
  if (expected) {
    LOCKSTEP_TRY_VOID(compare(model, file, *expected, found));
  } else {
    LOCKSTEP_TRY_VOID(require_replaceable(model, found, options.action));
    LOCKSTEP_TRY_VOID(write_text_file(file, to_text(found)));
  }
  return VerifiedModel{.sums = file, .tensors = std::ssize(found.tensors), .bytes = checkpoint->bytes_of_files()};
}

}  // namespace lockstep::checkpoint
