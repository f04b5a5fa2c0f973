// Writes files of torch.save, and invalid archives and pickles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {

/// A number's bytes, the lowest first.
template <typename T>
std::string little_endian(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// One file of an archive.
struct ZippedFile {
  std::string name;
  std::string bytes;
  uint16_t method = 0;  // stored
};

struct ZipStyle {
  bool zip64 = false;  // sizes and offsets in 64 bits
  size_t padding = 0;  // before the bytes of each file, as torch aligns them
};

/// The bytes of a zip archive.
inline std::string zip_of(const std::vector<ZippedFile>& files, ZipStyle style = {}) {
  std::string archive, directory;
  const auto u16 = [](size_t number) { return little_endian(static_cast<uint16_t>(number)); };
  const auto u32 = [](size_t number) { return little_endian(static_cast<uint32_t>(number)); };
  const auto u64 = [](size_t number) { return little_endian(static_cast<uint64_t>(number)); };
  for (const ZippedFile& file : files) {
    const size_t header = archive.size(), size = file.bytes.size();
    const std::string about = u16(0) + u16(file.method) + u32(0) + u32(0);  // flags, method, time, checksum
    const std::string sizes = style.zip64 ? u32(0xffffffff) + u32(0xffffffff) : u32(size) + u32(size);
    const std::string extra = style.zip64 ? u16(1) + u16(24) + u64(size) + u64(size) + u64(header) : "";
    archive += "PK\3\4" + u16(45) + about + sizes + u16(file.name.size()) + u16(style.padding) + file.name;
    archive += std::string(style.padding, 'Z') + file.bytes;
    directory += "PK\1\2" + u16(45) + u16(45) + about + sizes + u16(file.name.size()) + u16(extra.size()) + u16(0) +
                 u16(0) + u16(0) + u32(0) + u32(style.zip64 ? 0xffffffff : header) + file.name + extra;
  }
  const size_t count = files.size(), start = archive.size(), end = start + directory.size();
  archive += directory;
  if (style.zip64) {
    archive += "PK\6\6" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(count) + u64(count) +
               u64(directory.size()) + u64(start);
    archive += "PK\6\7" + u32(0) + u64(end) + u32(1);
    return archive + "PK\5\6" + u16(0) + u16(0) + std::string(12, '\xff') + u16(0);
  }
  return archive + "PK\5\6" + u16(0) + u16(0) + u16(count) + u16(count) + u32(directory.size()) + u32(start) + u16(0);
}

namespace pickle {

// The pieces of a pickle; a whole one is PROTOCOL + a value + STOP.
inline const std::string kProtocol = "\x80\x02", kStop = ".";

inline std::string text(std::string_view value) {
  return "X" + little_endian(static_cast<uint32_t>(value.size())) + std::string(value);
}
inline std::string number(int64_t value) { return std::string("\x8a\x08") + little_endian(value); }
inline std::string name(const std::string& module, const std::string& attribute) {
  return "c" + module + "\n" + attribute + "\n";
}
inline std::string tuple(const std::vector<std::string>& values) {
  std::string all = "(";
  for (const std::string& value : values) all += value;
  return all + "t";
}
inline std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> pickled;
  for (const int64_t value : values) pickled.push_back(number(value));
  return tuple(pickled);
}
inline std::string call(const std::string& callable, const std::vector<std::string>& arguments) {
  return callable + tuple(arguments) + "R";
}
inline const std::string kOrderedDict = name("collections", "OrderedDict");

/// A storage of `elements` elements that lies under data/`key`.
struct Storage {
  std::string type;  // "FloatStorage"
  std::string key;
  int64_t elements = 0;
};
inline std::string storage(const Storage& of) {
  return tuple({text("storage"), name("torch", of.type), text(of.key), text("cpu"), number(of.elements)}) + "Q";
}
inline std::string tensor(const Storage& of, int64_t first, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& strides) {
  return call(name("torch._utils", "_rebuild_tensor_v2"),
              {storage(of), number(first), numbers(shape), numbers(strides), "\x89", call(kOrderedDict, {})});
}

/// A whole pickle: an OrderedDict of keys and pickled values.
inline std::string state_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string pickled = kProtocol + call(kOrderedDict, {}) + "(";
  for (const auto& [key, value] : items) pickled += text(key) + value;
  return pickled + "u" + kStop;
}

/// A storage with the view of all of it, as old files name them.
inline std::string storage_with_view(const Storage& of) {
  const std::string view = tuple({text(of.key), number(0), number(of.elements)});
  return tuple({text("storage"), name("torch", of.type), text(of.key), text("cpu"), number(of.elements), view}) + "Q";
}

}  // namespace pickle

/// The bytes of a file of torch before 1.6: `dict` is a whole pickle, `storages` are keys and bytes of 4-byte elements.
inline std::string old_bin_of(const std::string& dict,
                              const std::vector<std::pair<std::string, std::string>>& storages) {
  using namespace pickle;
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  std::string keys, data;
  for (const auto& [key, bytes] : storages) {
    keys += text(key);
    data += little_endian(static_cast<int64_t>(bytes.size() / 4)) + bytes;
  }
  const std::string facts = "}(" + text("protocol_version") + number(1001) + text("little_endian") + "\x88u";
  return kProtocol + magic + kStop + kProtocol + number(1001) + kStop + kProtocol + facts + kStop + dict + kProtocol +
         "](" + keys + "e" + kStop + data;
}
}  // namespace lockstep::checkpoint
