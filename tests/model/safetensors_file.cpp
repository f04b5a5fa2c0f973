#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/model/stored_tensor.h"

namespace lockstep::model {
namespace {

std::string_view stored_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "F32";
    case DType::kBFloat16: return "BF16";
    case DType::kFloat16: return "F16";
    case DType::kInt32: return "I32";
    case DType::kUInt8: return "U8";
    case DType::kInt8: return "I8";
  }
  LOCKSTEP_CHECK(false, static_cast<int>(dtype));
  return {};
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t begin = 0;
  for (const StoredTensor& tensor : tensors) {
    const size_t end = begin + tensor.bytes.size();
    const std::string dtype =
        tensor.stored_dtype.empty() ? std::string(stored_name(tensor.type.dtype)) : tensor.stored_dtype;
    header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.type.shape.dims()}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const StoredTensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  LOCKSTEP_CHECK(file.good(), path.string());
}

}  // namespace lockstep::model
