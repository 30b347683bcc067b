#include "tools/quarry/output_file.h"

#include <filesystem>

#include "quarry/base/file.h"

namespace quarry::tools {
namespace {

std::string NumpyType(DataType type) {
  const char kind = IsFloat(type) ? 'f' : Name(type)[0];
  const char order = SizeOf(type) == 1 ? '|' : '<';
  return fmt::format("{}{}{}", order, kind, SizeOf(type));
}

/// @source NumPy format description, version 1.0: magic, length, Python dictionary, padded to a multiple of
/// 64 bytes
Bytes NpyHeader(const client::LevelSamples& samples) {
  const Index3 shape = samples.extent.shape();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}, {}), }}",
                                   NumpyType(samples.type), shape[2], shape[1], shape[0]);
  constexpr std::size_t kPrefix = 10;
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  Bytes bytes;
  for (const char c : std::string("\x93NUMPY\x01")) bytes.push_back(static_cast<std::byte>(c));
  bytes.push_back(std::byte{0});
  PutLittleEndian(&bytes, static_cast<std::uint16_t>(header.size()));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

void AppendSamples(const client::LevelSamples& samples, Bytes* out) {
  const std::size_t begin = out->size();
  out->insert(out->end(), samples.bytes().begin(), samples.bytes().end());
  if constexpr (std::endian::native == std::endian::big) {
    const std::size_t size = SizeOf(samples.type);
    for (std::size_t i = begin; i < out->size(); i += size)
      std::reverse(out->begin() + i, out->begin() + i + size);
  } else {
    (void)begin;
  }
}

}  // namespace

Result<OutputFormat> FormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".raw") return OutputFormat::kRaw;
  if (ending == ".npy") return OutputFormat::kNpy;
  if (ending == ".png") return OutputFormat::kPng;
  return InvalidArgument("the ending of \"{}\" names no format; use .raw, .npy or .png", path);
}

Status WriteSamples(const std::string& path, const client::LevelSamples& samples, const ImageOptions& image) {
  QUARRY_ASSIGN_OR_RETURN(const OutputFormat format, FormatOf(path));
  Bytes bytes;
  if (format == OutputFormat::kPng) {
    QUARRY_ASSIGN_OR_RETURN(bytes, EncodePng(samples, image));
  } else {
    if (format == OutputFormat::kNpy) bytes = NpyHeader(samples);
    AppendSamples(samples, &bytes);
  }
  return ReplaceFile(path, bytes);
}

}  // namespace quarry::tools
