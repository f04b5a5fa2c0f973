// `lockstep quantise`: a copy of a checkpoint with matrices in codes, and what that changes.
#include "launcher/commands/quantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/engine.h"
#include "lockstep/quantise.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

/// Texts are scored in pieces of at most this many tokens.
constexpr int64_t kMostTokens = 1024;

/// Perplexities of one text.
struct Perplexity {
  int64_t tokens = 0;  // that were predicted
  double before = 0.0, after = 0.0;
};

/// The errors of one layer's matrices, or of one outside layers.
struct LayerError {
  int64_t matrices = 0;
  double mean = 0.0, largest = 0.0;
  std::string worst;  // the module with the largest error
};

/// "model.layers.3" of "model.layers.3.mlp.up_proj"; a name without a number is its own.
std::string layer_of(const std::string& module) {
  size_t begin = 0;
  while (begin < module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    const std::string_view part = std::string_view(module).substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) return module.substr(0, end);
    begin = end + 1;
  }
  return module;
}

/// In the order of the first matrix of each.
std::vector<std::pair<std::string, LayerError>> errors_by_layer(const QuantisedCopy& copy) {
  std::vector<std::pair<std::string, LayerError>> layers;
  std::map<std::string, size_t> index;
  for (const QuantisedMatrix& matrix : copy.matrices) {
    const auto [at, is_new] = index.try_emplace(layer_of(matrix.module), layers.size());
    if (is_new) layers.emplace_back(at->first, LayerError{});
    LayerError& layer = layers[at->second].second;
    layer.mean += (matrix.error - layer.mean) / static_cast<double>(++layer.matrices);
    if (matrix.error < layer.largest && !layer.worst.empty()) continue;
    layer.largest = matrix.error;
    layer.worst = matrix.module;
  }
  std::ranges::sort(layers, [](const auto& a, const auto& b) {  // layer 2 before layer 10
    return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
  });
  return layers;
}

/// The perplexity of `pieces` under a model, with its matrices as the files have them.
Result<double> perplexity_of(const std::filesystem::path& directory, const std::vector<std::vector<int32_t>>& pieces,
                             int threads) {
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto group, Group::threads(1));
  int64_t longest = 2;
  for (const auto& piece : pieces) longest = std::max(longest, std::ssize(piece));
  const EngineOptions options{
      .slots = 1, .capacity = longest - 1, .threads = threads, .choosers = Choosers::kNone, .scoring = Scoring::kOn};
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model, options));
  LOCKSTEP_TRY(const auto scores, engine->score(pieces, /*top=*/0));
  double sum = 0.0;
  int64_t tokens = 0;
  for (const auto& piece : scores) {
    for (const TokenScore& token : piece) {
      if (!token.logprob) continue;
      sum += *token.logprob;
      ++tokens;
    }
  }
  LOCKSTEP_TRY_VOID(engine->close());
  return std::exp(-sum / static_cast<double>(std::max<int64_t>(tokens, 1)));
}

Result<std::vector<std::vector<int32_t>>> pieces_of(const QuantiseCommand& command) {
  LOCKSTEP_TRY(const std::string text, read_text_file(*command.text, "--text-file"));
  LOCKSTEP_TRY(const Model model, Model::open(command.model));
  LOCKSTEP_TRY(const std::vector<int32_t> ids, model.encode(text));
  const auto most = static_cast<size_t>(std::min(kMostTokens, model.longest_sequence().value_or(kMostTokens)));
  std::vector<std::vector<int32_t>> pieces;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += most) {
    const auto end = std::min(begin + most, ids.size());
    if (end - begin > 1)
      pieces.emplace_back(ids.begin() + static_cast<ptrdiff_t>(begin), ids.begin() + static_cast<ptrdiff_t>(end));
  }
  if (!pieces.empty()) return pieces;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --text-file: found {} tokens in {}, expected at least 2; take a longer text",
                           ids.size(), command.text->string())};
}

Result<Perplexity> compare(const QuantiseCommand& command, const std::vector<std::vector<int32_t>>& pieces) {
  Perplexity result;
  for (const auto& piece : pieces) result.tokens += std::ssize(piece) - 1;
  LOCKSTEP_TRY(result.before, perplexity_of(command.model, pieces, command.threads));
  LOCKSTEP_TRY(result.after, perplexity_of(command.out, pieces, command.threads));
  return result;
}

Result<void> write_report(const QuantiseCommand& command, const QuantisedCopy& copy,
                          const std::optional<Perplexity>& perplexity) {
  using Json = nlohmann::ordered_json;
  Json report{{"weights", checkpoint::option_text(command.weights)},
              {"bytes_before", copy.bytes_before},
              {"bytes_after", copy.bytes_after},
              {"matrices", Json::array()},
              {"kept", copy.kept}};
  for (const QuantisedMatrix& matrix : copy.matrices) {
    report["matrices"].push_back(
        {{"module", matrix.module}, {"rows", matrix.rows}, {"columns", matrix.columns}, {"error", matrix.error}});
  }
  if (perplexity) {
    report["perplexity"] = {
        {"tokens", perplexity->tokens}, {"before", perplexity->before}, {"after", perplexity->after}};
  }
  return write_text_file(*command.json, report.dump(2) + "\n");
}

void print(const QuantiseCommand& command, const QuantisedCopy& copy, const std::optional<Perplexity>& perplexity) {
  fmt::print("{}: {} matrices in {}, {} with elements; {} instead of {}\n", command.out.string(), copy.matrices.size(),
             checkpoint::option_text(command.weights), copy.kept.size(), to_string(Bytes(copy.bytes_after)),
             to_string(Bytes(copy.bytes_before)));
  fmt::print("relative error (root mean square) of the matrices of a layer: mean, largest\n");
  for (const auto& [name, layer] : errors_by_layer(copy)) {
    fmt::print("  {}  {:.4f}  {:.4f} {}\n", name, layer.mean, layer.largest,
               std::string_view(layer.worst).substr(std::min(name.size() + 1, layer.worst.size())));
  }
  if (!perplexity) return;
  fmt::print("perplexity of {} tokens: {:.4f} before, {:.4f} after ({:+.2f} %)\n", perplexity->tokens,
             perplexity->before, perplexity->after, 100.0 * (perplexity->after / perplexity->before - 1.0));
}

}  // namespace

Result<void> quantise(const QuantiseCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  std::vector<std::vector<int32_t>> pieces;
  if (command.text) {
    LOCKSTEP_TRY(pieces, pieces_of(command));
  }
  LOCKSTEP_TRY(const QuantisedCopy copy, write_quantised_copy(command.model, command.out,
                                                              {.bits = command.weights.weights.bits,
                                                               .group = command.weights.weights.group,
                                                               .threads = command.threads}));
  std::optional<Perplexity> perplexity;
  if (command.text) {
    LOCKSTEP_TRY(perplexity, compare(command, pieces));
  }
  if (command.json) return write_report(command, copy, perplexity);
  print(command, copy, perplexity);
  return ok();
}

}  // namespace lockstep::launcher
