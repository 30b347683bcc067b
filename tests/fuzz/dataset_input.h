#pragma once

#include <string>
#include <vector>

#include "quarry/base/endian.h"

/// Inputs of the target "dataset": a byte that says whether checksums are corrected, then files, each with
/// its path after the size of that (u8), and its bytes after their size (u16).
namespace quarry::fuzz {

inline constexpr unsigned kRepairFiles = 1;

struct InputFile {
  std::string path;
  Bytes bytes;
};

inline Bytes WriteInputFiles(unsigned form, const std::vector<InputFile>& files) {
  Bytes input = {static_cast<std::byte>(form)};
  for (const InputFile& file : files) {
    PutLittleEndian(&input, static_cast<std::uint8_t>(file.path.size()));
    for (const char c : file.path) input.push_back(static_cast<std::byte>(c));
    PutLittleEndian(&input, static_cast<std::uint16_t>(file.bytes.size()));
    input.insert(input.end(), file.bytes.begin(), file.bytes.end());
  }
  return input;
}

/// Reads files from any input: sizes end with it.
inline std::vector<InputFile> ReadInputFiles(ByteSpan input) {
  std::vector<InputFile> files;
  const auto take = [&](std::size_t size) {
    const ByteSpan part = input.first(std::min(size, input.size()));
    input = input.subspan(part.size());
    return part;
  };
  const auto number = [&](std::size_t bytes) {
    std::size_t value = 0;
    const ByteSpan part = take(bytes);
    for (std::size_t i = part.size(); i-- > 0;) value = value << 8 | std::to_integer<std::size_t>(part[i]);
    return value;
  };
  while (!input.empty() && files.size() < 16) {
    InputFile& file = files.emplace_back();
    const ByteSpan path = take(number(1));
    file.path.assign(reinterpret_cast<const char*>(path.data()), path.size());
    const ByteSpan bytes = take(number(2));
    file.bytes.assign(bytes.begin(), bytes.end());
  }
  return files;
}

}  // namespace quarry::fuzz
