// Formats of a model's matrices in 4 and 8 bits, by their canonical names.
//
// A quantised checkpoint has one format for most of its matrices, and exceptions: those that it leaves alone, and those
// with more bits. The config alone decides, so that a model can be planned without its weights; only the type of the
// scales is then an assumption (`stored_weight_formats` reads it from the files).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// What a product makes of its input before it multiplies.
enum class ActivationFormat : uint8_t {
  kElements,      // nothing
  kInt8ByGroup,   // integers from −127 to 127 and a scale for each group of the weights
  kInt8ByToken,   // integers from −127 to 127 and a scale for each token
  kE4M3ByToken,   // e4m3 and a scale for each token
  kE4M3ByTensor,  // e4m3 and one scale, which the files hold
  kE4M3ByGroup,   // e4m3 and a scale for every 128 columns of a token
  kE2M1ByGroup,   // e2m1 and a scale for each group of the weights; read, but run nowhere (engine/model/requirements.h)
};

/// Whether the checkpoint defines how a product rounds its input; otherwise the options decide.
constexpr bool is_fixed(ActivationFormat format) {
  return format != ActivationFormat::kElements && format != ActivationFormat::kInt8ByGroup;
}

/// "elements", "int8-group", "int8-token", "e4m3-token", "e4m3-tensor", "e4m3-group", "e2m1-group".
std::string_view to_string(ActivationFormat format);

/// Columns of a group of `kE4M3ByGroup`.
inline constexpr int64_t kE4M3GroupColumns = 128;

/// The format of one matrix.
struct MatrixFormat {
  static constexpr int64_t kWholeRow = 0;

  WeightFormat weights;  // its group may be kWholeRow
  ActivationFormat activations = ActivationFormat::kElements;
  bool ordered = false;  // columns are in groups by a list in the file (act-order), not by their positions

  /// The format of the weights in a matrix of `columns`: a group has at most as many.
  WeightFormat of_columns(int64_t columns) const;

  friend bool operator==(const MatrixFormat&, const MatrixFormat&) = default;
};

/// "q4g128z.f16", "q8g0.bf16 int8-token", "q4g128z.f16 ordered".
std::string to_string(const MatrixFormat& format);

/// The formats in which elements can be served: "q4:GROUP", "q8:GROUP", and "int8:GROUP", which is q8 with activations
/// of 8 bits; without ":GROUP", groups of 32 columns with 4 bits and of 64 with 8. Empty for any other text.
std::optional<MatrixFormat> served_format(std::string_view text);
/// Its text with the group; else that of the format.
std::string option_text(const MatrixFormat& format);

/// A matrix whose format is not the usual one.
struct FormatException {
  std::string tensor;                  // canonical; of experts "…mlp.experts.*.gate_proj.weight", all of a layer
  std::optional<MatrixFormat> format;  // none: elements

  friend bool operator==(const FormatException&, const FormatException&) = default;
};

/// "model.layers.0.mlp.down_proj.weight: q8g128.f16", "lm_head.weight: none".
std::string to_string(const FormatException& exception);

/// The formats of all matrices that products can read in codes. All other tensors have elements, and a checkpoint
/// decodes them if need be: embeddings, routers, gates, the parts of latent attention that are multiplied by head.
struct WeightFormats {
  std::optional<MatrixFormat> usual;
  std::optional<MatrixFormat> table;        // of model.embed_tokens.weight, and of the head that is tied to it
  std::vector<FormatException> exceptions;  // by name, increasing

  /// The format of the tensor `name`; none: elements.
  std::optional<MatrixFormat> of(std::string_view name) const;
  bool any() const { return usual || table || !exceptions.empty(); }
  /// What the products of these matrices make of their inputs.
  std::set<ActivationFormat> activations() const;
  /// Whether the checkpoint defines how some products round their inputs.
  bool round_inputs() const;

  friend bool operator==(const WeightFormats&, const WeightFormats&) = default;
};
LOCKSTEP_FIELDS(WeightFormats, usual, table, exceptions);

/// Of a model that is served in `format`: all matrices, and with activations as they are the table of embeddings.
WeightFormats served_formats(const MatrixFormat& format);

/// The format of each matrix, `tensor` as in an exception, as a compact value: the most frequent one is the usual one.
WeightFormats compact_formats(std::vector<FormatException> matrices);

/// Whether products can read the tensor `name` (canonical) in codes.
bool may_have_codes(std::string_view name);

/// `name` with the expert's number as "*".
std::string without_expert(std::string_view name);

}  // namespace lockstep::checkpoint

template <>
struct fmt::formatter<lockstep::checkpoint::MatrixFormat> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const lockstep::checkpoint::MatrixFormat& value, Context& context) const {
    return fmt::formatter<std::string>::format(to_string(value), context);
  }
};

template <>
struct fmt::formatter<lockstep::checkpoint::FormatException> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const lockstep::checkpoint::FormatException& value, Context& context) const {
    return fmt::formatter<std::string>::format(to_string(value), context);
  }
};
