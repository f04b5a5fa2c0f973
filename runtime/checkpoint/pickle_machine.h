// A stack machine for pickles, without code execution. unpickler.h lists its operations. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A tensor in a pickle: a strided view of a storage outside the pickle.
struct PickledTensor {
  std::string storage;           // its key
  std::string_view dtype;        // in the safetensors format's notation
  int64_t storage_elements = 0;  // of the whole storage
  int64_t first = 0;             // element of the storage
  std::vector<int64_t> shape;    // at most 8 dimensions, none negative
  std::vector<int64_t> strides;  // in elements, none negative
};

enum class PickleKind {
  kNone,
  kNumber,
  kReal,
  kText,
  kTuple,
  kList,
  kDict,
  kCallable,
  kStorageType,
  kStorage,
  kTensor
};

/// A value of the program; its parts are indices of other values. Values are only added, so nothing is freed and a list
/// may contain itself.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t number = 0;           // kNumber and booleans; which callable; elements of a storage; index of a tensor
  std::string_view text = {};   // kText; key of a storage; element type of a storage type
  std::vector<uint32_t> parts;  // of containers: items, or alternating keys and values; of a storage: its type
};

/// Interprets one pickle. Each operation takes at least one byte and makes at most one value.
class PickleMachine {
 public:
  /// `bytes` begins with the pickle; `origin` names it in messages. Both outlive the machine.
  PickleMachine(std::span<const std::byte> bytes, std::string_view origin) : rest_(bytes), origin_(origin) {}

  /// Returns the index of its result. Fails with `kUnsupported` for anything not accepted and with `kInvalidArgument`
  /// for a damaged or truncated pickle.
  Result<uint32_t> run();

  const PickleValue& value(uint32_t index) const { return values_[index]; }
  const std::vector<PickleValue>& values() const { return values_; }
  const PickledTensor& tensor(const PickleValue& value) const { return tensors_[static_cast<size_t>(value.number)]; }
  /// The bytes after the pickle.
  std::span<const std::byte> rest() const { return rest_; }

  // Errors.
  Error malformed(std::string_view found_and_expected) const;
  Error refused(std::string_view what) const;

 private:
  // Reading the program.
  Result<std::string_view> take(uint64_t size);
  template <typename T>
  Result<T> take_number();
  Result<std::string_view> take_line();

  // Stack, marks and memo.
  Result<void> push(PickleValue value);
  Result<uint32_t> pop();
  Result<std::vector<uint32_t>> pop_to_mark();
  Result<std::vector<uint32_t>> pop_several(size_t count);
  Result<void> memoize(uint64_t slot);
  Result<void> recall(uint64_t slot);
  PickleValue* top() { return stack_.size() > floor() ? &values_[stack_.back()] : nullptr; }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  // Operations.
  Result<void> execute(uint8_t operation);
  Result<void> execute_rest(uint8_t operation);
  Result<void> push_text(uint64_t size);
  Result<void> push_long();
  Result<void> push_name(std::string_view module, std::string_view name);
  Result<void> push_stacked_name();
  Result<void> push_storage();
  Result<void> push_container(PickleKind kind, Result<std::vector<uint32_t>> parts);
  Result<void> add_to(PickleKind kind, Result<std::vector<uint32_t>> parts);
  Result<void> call();
  Result<void> rebuild_tensor(const PickleValue& arguments);
  Result<void> build();
  Result<std::vector<int64_t>> dimensions(const PickleValue& tuple) const;
  bool is_whole_storage(const PickleValue& view) const;

  std::span<const std::byte> rest_;
  const std::string_view origin_;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // stack heights
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace lockstep::checkpoint
