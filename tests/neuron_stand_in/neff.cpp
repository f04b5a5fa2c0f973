#include "tests/neuron_stand_in/neff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/core/hash.h"

namespace lockstep::stand_in {
namespace {

using nlohmann::json;

// The header's layout: field by field that of neff_header_t.
constexpr uint64_t kPackageVersion = 2;
constexpr uint64_t kMajorVersion = 2, kMinorVersion = 0;
constexpr uint64_t kStandInFeature = uint64_t{1} << 63;

struct Header {
  uint64_t package_version = kPackageVersion;
  uint64_t header_size = kNeffHeaderBytes;
  uint64_t data_size = 0;
  uint64_t major_version = kMajorVersion, minor_version = kMinorVersion;
  std::array<char, 128> build_version{};
  uint32_t cores = 1;
  std::array<uint8_t, 32> hash{};
  std::array<uint8_t, 16> uuid{};
  std::array<char, 256> name{};
  uint32_t requested_cores = 1;
  std::array<uint8_t, 64> cores_per_node{1};
  uint64_t feature_bits = kStandInFeature;
  uint32_t logical_cores = 1;
  std::array<uint8_t, 468> padding{};
};
static_assert(sizeof(Header) == kNeffHeaderBytes);

template <size_t N>
void put_text(std::string_view text, std::array<char, N>& field) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), field.begin());
}

template <size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

std::array<uint8_t, 32> hash_of(std::span<const std::byte> data) {
  std::array<uint8_t, 32> hash{};
  const uint64_t value = Fingerprint().add_bytes(data).value();
  std::memcpy(hash.data(), &value, sizeof value);
  return hash;
}

// ---------------------------------------------------------------- the archive (ustar, POSIX.1-1988)

constexpr size_t kBlock = 512;

struct TarHeader {
  std::array<char, 100> name{};
  std::array<char, 8> mode{'0', '0', '0', '0', '6', '4', '4'};
  std::array<char, 8> user{'0', '0', '0', '0', '0', '0', '0'}, group{'0', '0', '0', '0', '0', '0', '0'};
  std::array<char, 12> size{};
  std::array<char, 12> time{'0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'};
  std::array<char, 8> checksum{' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
  char type = '0';
  std::array<char, 100> link{};
  std::array<char, 6> magic{'u', 's', 't', 'a', 'r'};
  std::array<char, 2> version{'0', '0'};
  std::array<char, 247> rest{};
};
static_assert(sizeof(TarHeader) == kBlock);

using Files = std::map<std::string, std::span<const std::byte>>;

size_t whole_blocks(size_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

void append_file(const std::string& name, std::span<const std::byte> contents, std::vector<std::byte>& archive) {
  TarHeader header;
  put_text(name, header.name);
  put_text(fmt::format("{:011o}", contents.size()), header.size);
  unsigned sum = 0;
  for (const std::byte byte : std::as_bytes(std::span(&header, 1))) sum += static_cast<unsigned>(byte);
  put_text(fmt::format("{:06o}", sum), header.checksum);
  const size_t begin = archive.size();
  archive.resize(begin + kBlock);
  std::memcpy(archive.data() + begin, &header, sizeof header);
  archive.insert(archive.end(), contents.begin(), contents.end());
  archive.resize(whole_blocks(archive.size()));
}

/// The files of an archive, or none when it is cut off or no archive.
std::optional<Files> files_of(std::span<const std::byte> archive) {
  Files files;
  while (archive.size() >= kBlock) {
    TarHeader header;
    std::memcpy(&header, archive.data(), sizeof header);
    if (header.name[0] == '\0') return files;
    size_t size = 0;
    const auto [end, problem] = std::from_chars(header.size.data(), header.size.data() + 11, size, 8);
    archive = archive.subspan(kBlock);
    if (problem != std::errc() || size > archive.size()) return std::nullopt;
    files.emplace(text_of(header.name), archive.first(size));
    archive = archive.subspan(std::min(whole_blocks(size), archive.size()));
  }
  return std::nullopt;  // an archive ends with empty blocks
}

std::vector<std::byte> archive_of(const Neff& neff) {
  const json described{
      {"made_by", kNeffMark}, {"module", "module.hlo.pb"}, {"target", neff.target}, {"flags", neff.flags}};
  const std::string text = described.dump(1);
  std::vector<std::byte> archive;
  append_file("sg00/def.json", std::as_bytes(std::span(text)), archive);
  append_file("sg00/module.hlo.pb", neff.module, archive);
  archive.resize(archive.size() + 2 * kBlock);
  return archive;
}

// ---------------------------------------------------------------- reading

Error unsupported(const std::string& found) {
  return {ErrorKind::kUnsupported, fmt::format("[stand-in] cannot read a NEFF: found {}; give what the stand-in "
                                               "compiler made",
                                               found)};
}

Error damaged(const std::string& found) {
  return {ErrorKind::kInvalidArgument, fmt::format("[stand-in] cannot read a NEFF: found {}; compile it again", found)};
}

Result<void> check(const Header& header) {
  if (header.package_version != kPackageVersion || header.header_size != kNeffHeaderBytes) {
    return unsupported(fmt::format("package version {} with a header of {} bytes, expected {} with {}",
                                   header.package_version, header.header_size, kPackageVersion, kNeffHeaderBytes));
  }
  if (header.major_version != kMajorVersion || header.minor_version != kMinorVersion) {
    return unsupported(fmt::format("NEFF version {}.{}, expected {}.{}", header.major_version, header.minor_version,
                                   kMajorVersion, kMinorVersion));
  }
  if (header.feature_bits != kStandInFeature) {
    return unsupported(fmt::format("feature bits {:#x}, expected {:#x}: it was not made by the stand-in compiler",
                                   header.feature_bits, kStandInFeature));
  }
  return ok();
}

}  // namespace

std::vector<std::byte> write_neff(const Neff& neff) {
  const std::vector<std::byte> archive = archive_of(neff);
  Header header{.data_size = archive.size(), .hash = hash_of(archive), .logical_cores = neff.logical_cores};
  put_text(kNeffMark, header.build_version);
  put_text(neff.name, header.name);
  std::copy_n(header.hash.begin(), header.uuid.size(), header.uuid.begin());
  std::vector<std::byte> bytes(kNeffHeaderBytes + archive.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::copy(archive.begin(), archive.end(), bytes.begin() + kNeffHeaderBytes);
  return bytes;
}

Result<Neff> read_neff(std::span<const std::byte> bytes) {
  if (bytes.size() < kNeffHeaderBytes) {
    return damaged(fmt::format("{} bytes, expected a header of {}", bytes.size(), kNeffHeaderBytes));
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  LOCKSTEP_TRY_VOID(check(header));
  const std::span<const std::byte> archive = bytes.subspan(kNeffHeaderBytes);
  if (archive.size() != header.data_size) {
    return damaged(fmt::format("{} bytes of data, expected {}", archive.size(), header.data_size));
  }
  if (hash_of(archive) != header.hash) return damaged("data that does not fit the header's hash");
  const auto files = files_of(archive);
  if (!files) return damaged("an archive that is cut off");
  const auto definition = files->find("sg00/def.json"), module = files->find("sg00/module.hlo.pb");
  if (definition == files->end() || module == files->end()) return damaged("no module in the archive");
  const auto* text = reinterpret_cast<const char*>(definition->second.data());
  const json described = json::parse(text, text + definition->second.size(), nullptr, /*allow_exceptions=*/false);
  if (!described.is_object() || described.value("made_by", "") != kNeffMark) return damaged("no description");
  return Neff{.name = text_of(header.name),
              .target = described.value("target", ""),
              .flags = described.value("flags", std::vector<std::string>()),
              .logical_cores = header.logical_cores,
              .module = {module->second.begin(), module->second.end()}};
}

}  // namespace lockstep::stand_in
