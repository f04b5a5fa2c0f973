// Names and layouts of each model family's weights in files on the hub. Private to this folder.
//
// The left column has the canonical names used by the rest of the program (stored_tensors.h), the right column the
// names in files. Sources: modeling_<type>.py of transformers and its save_pretrained.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// The axes of a stored tensor. A bias has no input axis.
enum class Axes {
  kOutputInput,         // [out, in], as nn.Linear
  kInputOutput,         // [in, out]
  kExpertsOutputInput,  // [experts, out, in]
  kExpertsInputOutput,  // [experts, in, out]
  kInputOutputByHead,   // [heads · out, in]: each head's matrix as [in, out]
  kChannels,            // [channels, 1, taps]: a convolution of each channel by itself
  kHeadsOutputInput,    // [heads, out, in], as one matrix [heads · out, in]
  kOutputTiledInput,    // [out, in], the inputs by value head in the order of kTiledValues
  kExpertsMxfp4,  // two tensors u8: NAME_blocks [experts, out, in / 32, 16] and NAME_scales [experts, out, in / 32]
};

/// Whether a tensor with those axes holds the matrices of all experts.
constexpr bool is_stack(Axes axes) { return axes == Axes::kExpertsOutputInput || axes == Axes::kExpertsInputOutput; }

/// Which stored outputs form a tensor. nh, kv: query and key/value heads, hd: head size.
enum class Outputs {
  kAll,
  kQuery,        // the first nh · hd of nh · hd + 2 · kv · hd
  kKey,          // the next kv · hd
  kValue,        // the last kv · hd
  kQueryByHead,  // [kv, nh / kv + 2, hd]: all but the last 2 · hd of each key/value head
  kKeyByHead,    // the last but one hd
  kValueByHead,  // the last
  // An attention with a gate: [nh, 2, hd].
  kGatedQuery,
  kGateOfQuery,
  // Linear attention of G key heads of k and H value heads of v: the first G · k of 2 · G · k + H · v, and so on.
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  // By key head, each with r = H / G value heads: [G, k + k + r · v + r · v], and [G, r + r] of its gates.
  kDeltaQueryByHead,
  kDeltaKeyByHead,
  kDeltaValueByHead,
  kDeltaGateByHead,
  kDeltaFirstByHead,
  kDeltaSecondByHead,
  // By value head, in GGUF files of Qwen 3.5 and later: the first of each key head, then the second … (tiled_heads.h).
  kTiledValues,       // all outputs: H · v, or H
  kDeltaTiledValues,  // the last H · v of kDeltaValue's
  // Latent attention, by head: plain_dim rows that make keys of the latent, then value_dim rows that make values.
  kLatentKey,
  kLatentValue,
  kFirstHalf,
  kSecondHalf,
  kEven,
  kOdd,
  kOnlyRow,  // a matrix of one row, as a vector
  kAsRow,    // a vector, as a matrix of one row
};

/// One way to store a tensor. `{p}` stands for the prefix of the file, `{n}` for a layer, `{e}` for an expert,
/// `{s}` for a stream after the first, and a final `*` for "weight" or "bias".
struct StoredForm {
  std::string_view canonical;
  std::string_view stored;
  Outputs outputs = Outputs::kAll;
  Axes axes = Axes::kOutputInput;
};

/// The forms of a family; if several match, the first existing one is used.
struct FamilyNames {
  std::span<const std::string_view> prefixes;            // of all tensors except the head; the first match is used
  std::string_view layer;                                // "h.{n}.", after the prefix
  std::span<const StoredForm> model;                     // whole names
  std::vector<std::span<const StoredForm>> layer_forms;  // after "model.layers.{n}." and `layer`
  bool pairs_rows = false;    // of q and k: row 2i of a head is its row i, row 2i + 1 its row i + half of them
  bool shifts_norms = false;  // norms' weights are stored with 1 added, except those of linear attention
  bool stores_decay = false;  // a_log of linear attention is stored as −exp(a_log)
};

/// The names of a model type. An unknown type has Llama's.
FamilyNames names_of_family(std::string_view model_type);

/// The values of a form's placeholders.
struct Placeholders {
  std::string_view prefix;
  int64_t layer = 0;
  int64_t number = 0;          // of an expert or a stream
  std::string_view parameter;  // "weight" or "bias"
};

/// `pattern` with its placeholders filled in.
std::string fill_in(std::string_view pattern, const Placeholders& placeholders);

/// The possible names of the tensor `canonical` in a file of the family with the prefix `prefix`.
std::vector<std::string> possible_names(const FamilyNames& family, std::string_view prefix, std::string_view canonical);

}  // namespace lockstep::checkpoint
