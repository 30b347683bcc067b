#pragma once

#include <optional>

#include "quarry/base/file.h"
#include "quarry/input/formats.h"
#include "quarry/input/vtk_text.h"

/// Arrays in VTK's XML files, however they are encoded.
namespace quarry::input::internal {

/// How the samples of an array are stored.
struct Encoding {
  bool ascii = false;
  bool base64 = false;
  bool compressed = false;
  bool big_endian = false;
  std::size_t header_bytes = 4;  ///< bytes of each number in front of the samples
  std::uint64_t offset = 0;      ///< offset of the first character or byte in the file
  std::uint64_t length = 0;      ///< length of the text; 0 for appended data
  std::int64_t components = 1;   ///< numbers of one sample; the field is one of them
  std::int64_t component = 0;
};

/// Samples in blocks of zlib: their places in the source after the header.
struct Blocks {
  std::uint64_t block_bytes = 0;       ///< bytes of a block before compression; the last may be shorter
  std::vector<std::uint64_t> offsets;  ///< one more than blocks
};

/// The array of a piece: samples of a grid of its own. It does not move once it is prepared.
class ArrayReader {
 public:
  ArrayReader(InputInfo info, RandomAccessFile file, Encoding encoding)
      : info_(std::move(info)), file_(std::move(file)), encoding_(encoding) {}

  /// Finds where the samples begin, and checks that there are as many bytes as the extent needs.
  /// @errors kDataLoss
  Status Prepare();

  /// @errors kDataLoss, with the path
  Status ReadBox(const Box& box, std::span<std::byte> samples) const;

 private:
  /// The last decompressed block, for the next read.
  struct LastBlock {
    Bytes bytes;
    std::size_t number = SIZE_MAX;
  };

  Status ReadRun(std::uint64_t first, std::span<std::byte> out, LastBlock* last) const;
  Status ReadBytes(std::uint64_t first, std::span<std::byte> out, LastBlock* last) const;
  std::uint64_t HeaderNumber(const std::byte* bytes) const;
  Status WrongSize(std::uint64_t bytes) const;
  Status PreparePlain(const ByteSource& start);
  Status PrepareBlocks(const ByteSource& start);
  Status ReadBlocks(std::uint64_t first, std::span<std::byte> out, Bytes* block, std::size_t* number) const;
  Status Decompress(std::size_t number, Bytes* block) const;

  InputInfo info_;
  RandomAccessFile file_;
  Encoding encoding_;
  std::uint64_t bytes_ = 0;  ///< size of all samples
  std::optional<ByteSource> data_;
  Blocks blocks_;
};

}  // namespace quarry::input::internal
