// A checkpoint of views into the files of a model directory. Private to this folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/tensor_view.h"
#include "runtime/checkpoint/tiled_heads.h"

namespace lockstep::checkpoint {

/// What a conversion did to a tensor's values; undone while reading.
enum class StoredChange : uint8_t {
  kNone,
  kOneAdded,
  kNegatedPower,  // −exp(value)
};

/// How the files store one tensor.
struct StoredTensor {
  std::string stored_name;                             // in the file
  TensorEntry entry;                                   // of the requested tensor, with its type
  TensorView view;                                     // valid if `entry.can_be_read` and it has no codes
  std::shared_ptr<const CodedTensor> codes = nullptr;  // of a matrix with a format; shared by copies of this struct
  bool is_order = false;                               // the tensor is the order of the columns of `codes`
  StoredChange change = StoredChange::kNone;
  std::optional<TiledHeads> columns = std::nullopt;  // their order in `view`, if it is another one
};

/// A stored tensor under its own name.
StoredTensor as_it_is(const std::string& name, const TensorEntry& entry);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// The tensors of `files` by their canonical names (stored_tensors.h). Fails as `open_model_checkpoint`.
Result<StoredTensors> resolve_tensors(const StoredFiles& files, const ModelSpec& spec);

/// Tensors by their requested names. Immutable except for the count of bytes read.
class ViewCheckpoint final : public Checkpoint {
 public:
  /// `names_of` returns the possible names of a tensor in the files, for the message when it is missing.
  ViewCheckpoint(std::unique_ptr<StoredFiles> files, std::map<std::string, StoredTensor, std::less<>> stored,
                 std::function<std::string(std::string_view name)> names_of);

  const TensorMap& tensors() const override { return tensors_; }
  Result<void> read(std::string_view name, const Shape& expected, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override;
  Result<void> read_codes(std::string_view name, const Shape& expected, Range rows, Range columns,
                          CodedRows dst) const override;
  int64_t rows_at_once(std::string_view name) const override;
  int64_t place_of(std::string_view name) const override;
  void expect(std::string_view name, std::span<const Range> ranges) const override;
  uint64_t fingerprint() const override { return files_->fingerprint(); }
  int64_t bytes_read() const override { return files_->bytes_read(); }
  int64_t bytes_of_files() const override { return files_->bytes_of_files(); }

 private:
  Result<const StoredTensor*> find_readable(std::string_view name, const Shape& expected) const;

  std::unique_ptr<StoredFiles> files_;
  std::map<std::string, StoredTensor, std::less<>> stored_;
  std::function<std::string(std::string_view name)> names_of_;
  TensorMap tensors_;
};

}  // namespace lockstep::checkpoint
