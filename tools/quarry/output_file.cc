#include "tools/quarry/output_file.h"

#include <algorithm>
#include <bit>
#include <filesystem>

#include "quarry/base/float16.h"
#include "tools/quarry/csv_table.h"

namespace quarry::tools {
namespace {

std::string NumpyType(DataType type, GivenType given) {
  if (given == GivenType::kBool) return "|b1";
  if (given == GivenType::kFloat16) return "<f2";
  const char kind = IsFloat(type) ? 'f' : Name(type)[0];
  const char order = SizeOf(type) == 1 ? '|' : '<';
  return fmt::format("{}{}{}", order, kind, SizeOf(type));
}

/// @source NumPy format description, version 1.0: magic, length, Python dictionary, padded to a multiple of
/// 64 bytes
Bytes NpyHeader(const client::LevelSamples& samples, GivenType given) {
  const Index3 shape = samples.extent.shape();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}, {}), }}",
                                   NumpyType(samples.type, given), shape[2], shape[1], shape[0]);
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

/// Swaps the bytes of samples on machines that are not little-endian.
void ToLittleEndian([[maybe_unused]] std::size_t sample_size, [[maybe_unused]] std::span<std::byte> samples) {
  if constexpr (std::endian::native == std::endian::big) {
    for (std::size_t i = 0; i < samples.size(); i += sample_size)
      std::ranges::reverse(samples.subspan(i, sample_size));
  }
}

}  // namespace

Result<OutputFormat> FormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".raw") return OutputFormat::kRaw;
  if (ending == ".npy") return OutputFormat::kNpy;
  if (ending == ".png") return OutputFormat::kPng;
  if (ending == ".csv") return OutputFormat::kCsv;
  return InvalidArgument("the ending of \"{}\" is not a known format; use .raw, .npy, .png or .csv", path);
}

Result<std::span<std::byte>> OutputFile::Open(const std::string& path, const client::LevelSamples& samples,
                                              GivenType given, std::size_t bytes) {
  mapped_.reset();
  QUARRY_ASSIGN_OR_RETURN(const OutputFormat format, FormatOf(path));
  if (format == OutputFormat::kPng || format == OutputFormat::kCsv || given == GivenType::kFloat16)
    return std::span<std::byte>();
  const Bytes header = format == OutputFormat::kNpy ? NpyHeader(samples, given) : Bytes();
  Result<MappedFile> mapped = MappedFile::Create(path, header.size() + bytes);
  if (mapped.status().code() == StatusCode::kUnimplemented) return std::span<std::byte>();
  QUARRY_RETURN_IF_ERROR(mapped.status());
  mapped_.emplace(*std::move(mapped));
  std::ranges::copy(header, mapped_->bytes().begin());
  return mapped_->bytes().subspan(header.size());
}

Status OutputFile::Write(const std::string& path, const client::LevelSamples& samples, GivenType given,
                         const ImageOptions& image, const DatasetDescription* dataset) {
  if (!samples.buffer.empty()) {
    ToLittleEndian(SizeOf(samples.type), samples.buffer);
    return mapped_->Publish();
  }
  QUARRY_ASSIGN_OR_RETURN(const OutputFormat format, FormatOf(path));
  Bytes bytes;
  if (format == OutputFormat::kPng) {
    QUARRY_ASSIGN_OR_RETURN(bytes, EncodePng(samples, image));
    return ReplaceFile(path, bytes);
  }
  if (format == OutputFormat::kCsv) {
    QUARRY_ASSIGN_OR_RETURN(bytes, EncodeCsv(samples, *dataset));
    return ReplaceFile(path, bytes);
  }
  if (format == OutputFormat::kNpy) bytes = NpyHeader(samples, given);
  if (given == GivenType::kFloat16) {
    for (const float sample : samples.SamplesAs<float>()) PutLittleEndian(&bytes, HalfOfFloat(sample));
    return ReplaceFile(path, bytes);
  }
  const std::size_t header = bytes.size();
  bytes.insert(bytes.end(), samples.bytes().begin(), samples.bytes().end());
  ToLittleEndian(SizeOf(samples.type), std::span(bytes).subspan(header));
  return ReplaceFile(path, bytes);
}

}  // namespace quarry::tools
