// Locations of files in an uncompressed zip archive. torch.save stores tensors uncompressed for reading in place
// (PKWARE APPNOTE 6.3, with zip64). Private to this folder.
//
//   local header | name | padding | bytes of the file | … | central directory | [zip64 end, locator] | end record
//
// Existing libraries do not fit: libzip hides the offset of an entry's bytes, and its handles belong to one thread;
// minizip returns the offset, but keeps a cursor per handle. Reading the directory takes less code than using either.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The bytes of one file inside an archive.
struct ZipEntry {
  int64_t offset = 0;  // in the archive
  int64_t size = 0;
};

/// The files of the archive by name. Fails with `kInvalidArgument` for a damaged directory (offsets outside the
/// archive, a duplicate name) and with `kUnsupported` when a file is compressed or encrypted, or the archive has
/// several volumes.
Result<std::map<std::string, ZipEntry, std::less<>>> read_zip_directory(const ByteSource& archive);

}  // namespace lockstep::checkpoint
