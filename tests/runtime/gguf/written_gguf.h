// A GGUF file written into memory, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/gguf/gguf_header.h"

namespace lockstep::gguf {

/// Appends keys and tensors; `bytes` is the file. Damaged files are made with the raw parts.
class WrittenGguf {
 public:
  explicit WrittenGguf(uint32_t version = 3, uint64_t alignment = 32) : version_(version), alignment_(alignment) {}

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string raw_text(std::string_view text) { return raw<uint64_t>(text.size()) + std::string(text); }

  /// A key with the bytes of its value.
  WrittenGguf& key(std::string_view name, uint32_t type, const std::string& value) {
    keys_ += raw_text(name) + raw(type) + value;
    ++key_count_;
    return *this;
  }
  WrittenGguf& key(std::string_view name, ValueType type, const std::string& value) {
    return key(name, static_cast<uint32_t>(type), value);
  }
  WrittenGguf& number(std::string_view name, uint32_t value) { return key(name, ValueType::kUInt32, raw(value)); }
  WrittenGguf& real(std::string_view name, float value) { return key(name, ValueType::kFloat32, raw(value)); }
  WrittenGguf& flag(std::string_view name, bool value) {
    return key(name, ValueType::kBool, std::string(1, value ? '\1' : '\0'));
  }
  WrittenGguf& text(std::string_view name, std::string_view value) {
    return key(name, ValueType::kString, raw_text(value));
  }
  WrittenGguf& texts(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes = raw(static_cast<uint32_t>(ValueType::kString)) + raw<uint64_t>(values.size());
    for (const std::string& value : values) bytes += raw_text(value);
    return key(name, ValueType::kArray, bytes);
  }
  template <typename T>
  WrittenGguf& numbers(std::string_view name, ValueType type, const std::vector<T>& values) {
    std::string bytes = raw(static_cast<uint32_t>(type)) + raw<uint64_t>(values.size());
    for (const T& value : values) bytes += raw(value);
    return key(name, ValueType::kArray, bytes);
  }

  /// A tensor; `shape` as in the file, columns first.
  WrittenGguf& tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type,
                      const std::string& bytes) {
    return tensor_at(name, shape, type, data_.size(), bytes);
  }
  WrittenGguf& tensor_at(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset,
                         const std::string& bytes) {
    tensors_ += raw_text(name) + raw(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) tensors_ += raw(size);
    tensors_ += raw(type) + raw(offset);
    ++tensor_count_;
    data_ += bytes + std::string((alignment_ - bytes.size() % alignment_) % alignment_, '\0');
    return *this;
  }
  WrittenGguf& floats(std::string_view name, const std::vector<uint64_t>& shape, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += raw(value);
    return tensor(name, shape, /*type=*/0, bytes);
  }

  std::string bytes() const {
    std::string file = "GGUF" + raw(version_) + raw(tensor_count_) + raw(key_count_) + keys_ + tensors_;
    file += std::string((alignment_ - file.size() % alignment_) % alignment_, '\0');
    return file + data_;
  }

 private:
  uint32_t version_;
  uint64_t alignment_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
  std::string keys_, tensors_, data_;
};

/// `bytes` as a file.
inline ByteSource source_of(const std::string& bytes) {
  return {"test.gguf", static_cast<int64_t>(bytes.size()), [&bytes](int64_t offset, std::span<std::byte> dst) {
            std::memcpy(dst.data(), bytes.data() + offset, dst.size());
            return Result<void>(ok());
          }};
}

}  // namespace lockstep::gguf
