#include "runtime/checkpoint/stored_formats.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kHeadMatrix = "lm_head.weight", kTable = "model.embed_tokens.weight";

}  // namespace

Result<WeightFormats> formats_of(const StoredTensors& tensors,
                                 const std::map<std::string, MatrixFormat, std::less<>>& coded) {
  std::map<std::string, std::optional<MatrixFormat>, std::less<>> formats;
  for (const auto& [name, tensor] : tensors) {
    if (!may_have_codes(name)) continue;
    const auto at = coded.find(name);
    const std::optional<MatrixFormat> format = at == coded.end() ? std::nullopt : std::optional(at->second);
    const auto [first, is_new] = formats.emplace(without_expert(name), format);
    if (is_new || first->second == format) continue;
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/checkpoint] cannot use tensor {} of {}: found the format {}, expected {} as of the "
                    "layer's first expert; take a model whose experts have one format",
                    tensor.stored_name, tensor.entry.file.string(), format ? to_string(*format) : "of elements",
                    first->second ? to_string(*first->second) : "elements")};
  }
  if (!coded.empty()) formats.try_emplace(std::string(kHeadMatrix), std::nullopt);  // without one, it is the embedding
  std::vector<FormatException> matrices;
  for (auto& [name, format] : formats) matrices.push_back({name, format});
  WeightFormats compact = compact_formats(std::move(matrices));
  const auto table = coded.find(kTable);
  if (table != coded.end()) compact.table = table->second;
  return compact;
}

}  // namespace lockstep::checkpoint
