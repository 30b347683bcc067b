#pragma once

#include <functional>
#include <string>

#include "quarry/base/file.h"
#include "quarry/data_type.h"
#include "quarry/input/formats.h"

/// The parts of reading VTK's files that the XML formats and the older one share, or that do not depend on
/// grids.
namespace quarry::input::internal {

/// The tags of a file without the text between them, which may be all its samples. The place of a text in the
/// file replaces it: "offset length", without the blanks at its ends. The file is read in pieces.
struct Markup {
  std::string xml;
  std::uint64_t appended = 0;  ///< offset of the first byte of appended data; 0: none
};
/// @errors kDataLoss: the file is no such file
Result<Markup> ReadMarkup(const RandomAccessFile& file);

/// Decodes groups of four characters, padded or not. @returns false if the text is not base64
bool DecodeBase64(std::string_view text, Bytes* out);

/// Bytes of a file from a place on, raw or decoded from base64. @threads safe
class ByteSource {
 public:
  ByteSource(const RandomAccessFile& file, std::uint64_t begin, bool base64)
      : file_(&file), begin_(begin), base64_(base64) {}

  /// Fills `out` with the decoded bytes from `position` on. @errors kDataLoss: no base64, or the file ends
  /// early
  Status ReadAt(std::uint64_t position, std::span<std::byte> out) const;

  /// The source after `bytes` bytes that were encoded separately, padding included.
  ByteSource Behind(std::uint64_t bytes) const;
  /// The same source without its first `bytes` bytes.
  ByteSource Skipping(std::uint64_t bytes) const;
  /// Whether the first `bytes` bytes, no multiple of three, end in padding: then they were encoded
  /// separately.
  Result<bool> EndsPadded(std::uint64_t bytes) const;

 private:
  Status ReadPiece(std::uint64_t position, std::span<std::byte> out) const;

  const RandomAccessFile* file_;
  std::uint64_t begin_;
  bool base64_;
  std::uint64_t skipped_ = 0;
};

/// Words of a stretch of a file, separated by blanks, read in pieces.
class WordReader {
 public:
  WordReader(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t length)
      : file_(file), next_(begin), end_(begin + length) {}

  /// Empty at the end, and after an error. Valid until the next call.
  const std::string& Next();
  const Status& status() const { return status_; }

 private:
  /// The next character; a blank at the end.
  char Get();

  const RandomAccessFile& file_;
  std::uint64_t next_;
  std::uint64_t end_;
  Bytes buffer_;
  std::size_t used_ = 0;
  std::string word_;
  Status status_;
};

/// Samples that are text: of each `components` numbers the one of `component`. Reading a box gives kDataLoss
/// if what is there is no number, or is none of the field's type.
/// @param offset, length  of the text in the file
std::unique_ptr<Input> MakeTextInput(InputInfo info, std::shared_ptr<const RandomAccessFile> file,
                                     std::uint64_t offset, std::uint64_t length, std::int64_t components,
                                     std::int64_t component);

/// All samples of an input as numbers, for those that are no field.
Result<std::vector<double>> NumbersIn(const Input& input);

/// The inputs of an array: of its only component, or of each that is chosen with --index.
/// @param info  what they have in common
/// @param open  opens one component
/// @errors kInvalidArgument: there are several and none is chosen, or there is no such axis or component
Result<Inputs> OpenComponents(
    const InputOptions& options, const InputInfo& info, std::int64_t components,
    const std::function<Result<std::unique_ptr<Input>>(InputInfo, std::int64_t component)>& open);

/// Why an array of several components cannot become a field, if none was chosen; else empty.
std::string ObstacleOfComponents(const InputOptions& options, std::int64_t components);

/// Places samples at the points of a rectilinear grid, or in the middle between them (of cells). Positions
/// that cannot be used become a warning.
void PlaceVtkAxis(std::vector<double> points, std::optional<DataType> stored, bool between, std::size_t axis,
                  InputInfo* info);

/// Writes a number to `sample` in its type. @returns false if the type cannot hold it
bool ParseSample(std::string_view text, DataType type, std::byte* sample);

}  // namespace quarry::input::internal
