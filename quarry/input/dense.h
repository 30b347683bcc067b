#pragma once

#include <functional>

#include "quarry/base/file.h"
#include "quarry/input/formats.h"

/// Arrays that lie in a file as samples alone, one after the other.
namespace quarry::input::internal {

/// The bytes of an array in its own order, wherever they come from.
class SampleBytes {
 public:
  virtual ~SampleBytes() = default;

  /// @errors kDataLoss: they end early, or are damaged
  /// @threads one caller at a time
  virtual Status ReadAt(std::uint64_t position, std::span<std::byte> out) const = 0;
};

/// A stretch of the array, from byte `position` of the array on, at `offset` of the file.
struct Segment {
  std::uint64_t position = 0;
  std::uint64_t offset = 0;
};

/// Bytes of a file, in one stretch or in several.
class FileBytes final : public SampleBytes {
 public:
  /// @param segments  in the order of the array; the first begins at position 0
  FileBytes(std::shared_ptr<const RandomAccessFile> file, std::vector<Segment> segments)
      : file_(std::move(file)), segments_(std::move(segments)) {}

  Status ReadAt(std::uint64_t position, std::span<std::byte> out) const override;

 private:
  std::shared_ptr<const RandomAccessFile> file_;  ///< arrays of one file share it
  std::vector<Segment> segments_;
};

/// How samples lie in the bytes.
struct DenseLayout {
  bool big_endian = false;
  std::int64_t components = 1;  ///< numbers of one sample; the field is one of them
  std::int64_t component = 0;
};

std::unique_ptr<Input> MakeDenseInput(InputInfo info, const DenseLayout& layout,
                                      std::unique_ptr<SampleBytes> bytes);

/// Reads a box of the samples, in as few and as long runs as the box allows.
/// @param read  reads bytes of all components from a position of the array on
Status ReadDense(const InputInfo& info, const DenseLayout& layout, const Box& box,
                 std::span<std::byte> samples,
                 const std::function<Status(std::uint64_t position, std::span<std::byte>)>& read);

/// Opens a file that several may read. @errors those of RandomAccessFile::Open
Result<std::shared_ptr<const RandomAccessFile>> OpenShared(const std::string& path);

/// Bytes of all samples of a field.
/// @errors kInvalidArgument: dims below 1, or too many samples
Result<std::uint64_t> BytesOf(const InputInfo& info);

}  // namespace quarry::input::internal
