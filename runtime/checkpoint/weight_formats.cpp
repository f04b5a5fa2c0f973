#include "runtime/checkpoint/weight_formats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "runtime/core/int8_groups.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kExpertsPart = ".experts.";

std::string text_of(const std::optional<MatrixFormat>& format) { return format ? to_string(*format) : "none"; }

}  // namespace

std::string_view to_string(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::kElements: return "elements";
    case ActivationFormat::kInt8ByGroup: return "int8-group";
    case ActivationFormat::kInt8ByToken: return "int8-token";
    case ActivationFormat::kE4M3ByToken: return "e4m3-token";
    case ActivationFormat::kE4M3ByTensor: return "e4m3-tensor";
    case ActivationFormat::kE4M3ByGroup: return "e4m3-group";
    case ActivationFormat::kE2M1ByGroup: return "e2m1-group";
  }
  return "unknown";
}

WeightFormat MatrixFormat::of_columns(int64_t columns) const {
  WeightFormat format = weights;
  if (format.group == kWholeRow || format.group > columns) format.group = std::max<int64_t>(1, columns);
  return format;
}

std::string to_string(const MatrixFormat& format) {
  std::string text = to_string(format.weights);
  if (format.activations != ActivationFormat::kElements) text += fmt::format(" {}", to_string(format.activations));
  if (format.ordered) text += " ordered";
  return text;
}

namespace {

struct ServedName {
  std::string_view name;
  WeightFormat weights;  // with the usual group
  ActivationFormat activations;
};
constexpr std::array kServed = {
    ServedName{"q4", {.bits = 4, .group = 32, .scale = ScaleType::kFloat16}, ActivationFormat::kElements},
    ServedName{"q8", {.bits = 8, .group = 64}, ActivationFormat::kElements},
    ServedName{"int8", {.bits = 8, .group = 64}, ActivationFormat::kInt8ByGroup}};

}  // namespace

std::optional<MatrixFormat> served_format(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto served = std::ranges::find(kServed, name, &ServedName::name);
  if (served == kServed.end()) return std::nullopt;
  MatrixFormat format{.weights = served->weights, .activations = served->activations};
  if (name.size() == text.size()) return format;
  const std::string_view group = text.substr(name.size() + 1);
  const char* const end = group.data() + group.size();
  const auto [stop, failure] = std::from_chars(group.data(), end, format.weights.group);
  if (failure != std::errc() || stop != end || !is_int8_group(format.weights.group)) return std::nullopt;
  return format;
}

std::string option_text(const MatrixFormat& format) {
  for (const ServedName& served : kServed) {
    std::string text = fmt::format("{}:{}", served.name, format.weights.group);
    if (served_format(text) == format) return text;
  }
  return to_string(format);
}

std::string to_string(const FormatException& exception) {
  return fmt::format("{}: {}", exception.tensor, text_of(exception.format));
}

std::optional<MatrixFormat> WeightFormats::of(std::string_view name) const {
  if (name == "model.embed_tokens.weight") return table;
  if (!any() || !may_have_codes(name)) return std::nullopt;
  const std::string tensor = without_expert(name);
  const auto at = std::ranges::lower_bound(exceptions, tensor, {}, &FormatException::tensor);
  return at != exceptions.end() && at->tensor == tensor ? at->format : usual;
}

std::set<ActivationFormat> WeightFormats::activations() const {
  std::set<ActivationFormat> found;
  const auto add = [&found](const std::optional<MatrixFormat>& format) {
    if (format) found.insert(format->activations);
  };
  add(usual);
  for (const FormatException& exception : exceptions) add(exception.format);
  return found;
}

bool WeightFormats::round_inputs() const { return std::ranges::any_of(activations(), is_fixed); }

WeightFormats served_formats(const MatrixFormat& format) {
  WeightFormats formats{.usual = format, .table = {}, .exceptions = {}};
  if (format.activations == ActivationFormat::kElements) formats.table = format;
  return formats;
}

WeightFormats compact_formats(std::vector<FormatException> matrices) {
  std::map<std::string, int64_t> counts;
  const FormatException* most = nullptr;
  for (const FormatException& matrix : matrices) {
    const int64_t count = ++counts[text_of(matrix.format)];
    if (most == nullptr || count > counts[text_of(most->format)]) most = &matrix;
  }
  WeightFormats formats;
  if (most != nullptr) formats.usual = most->format;
  std::erase_if(matrices, [&](const FormatException& matrix) { return matrix.format == formats.usual; });
  std::ranges::sort(matrices, {}, &FormatException::tensor);
  formats.exceptions = std::move(matrices);
  return formats;
}

bool may_have_codes(std::string_view name) {
  if (name == "lm_head.weight" || name == "model.per_layer_model_projection.weight") return true;
  if (!name.starts_with("model.layers.")) return false;
  if (name.ends_with(".per_layer_input_gate.weight") || name.ends_with(".per_layer_projection.weight")) return true;
  if (!name.ends_with("_proj.weight")) return false;
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has(".linear_attn.")) return !has(".a_proj.") && !has(".b_proj.");
  return has(".mlp.") || (has(".self_attn.") && !has(".latent_"));
}

std::string without_expert(std::string_view name) {
  const size_t at = name.find(kExpertsPart);
  if (at == std::string_view::npos) return std::string(name);
  const size_t number = at + kExpertsPart.size();
  const size_t end = name.find('.', number);
  if (end == std::string_view::npos) return std::string(name);
  return fmt::format("{}*{}", name.substr(0, number), name.substr(end));
}

}  // namespace lockstep::checkpoint
