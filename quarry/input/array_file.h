#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/data_type.h"
#include "quarry/input/axes.h"
#include "quarry/input/formats.h"

/// Files of arrays with named dimensions and attributes, such as NetCDF and HDF5. Their meaning is decided in
/// conventions.h.
namespace quarry::input::internal {

/// The value of an attribute: numbers or texts.
struct FileAttribute {
  std::vector<double> numbers;
  std::vector<std::string> texts;
  DataType type = DataType::kFloat64;  ///< type of the numbers
  bool is_list = false;                ///< one value is a list of one
  std::vector<SampleValue> exact;      ///< the numbers with all digits, of integers of 64 bits alone
};

/// By name.
struct FileAttributes : std::map<std::string, FileAttribute> {
  std::vector<std::string>
      left;  ///< names of those that are neither numbers nor texts, or longer than a dataset keeps

  /// Adds those of an inner group, which replace others of their names.
  void Add(FileAttributes inner);
};

/// An attribute of one text; empty if there is none.
std::string Text(const FileAttributes& attributes, const std::string& name);
/// The first number of an attribute.
std::optional<double> Number(const FileAttributes& attributes, const std::string& name);

struct ArrayDimension {
  std::string name;  ///< empty: unknown
  std::int64_t length = 0;
  bool grows = false;  ///< unlimited
  /// The array with the positions along it, by its place in the file's list.
  std::optional<std::size_t> coordinate;
  /// Positions that the file gives without such an array.
  SourceAxis described;
  Role role = Role::kUnknown;  ///< that the format itself tells
};

/// The parts of a complex sample.
enum class Part : std::uint8_t { kWhole, kReal, kImaginary };

/// Whether a structure of two numbers of one type is a complex sample, by the names of its members: h5py,
/// netCDF and others differ in them.
bool IsComplex(std::string_view first, std::string_view second);

/// One part of samples that have two, next to each other.
/// @param both  the samples
/// @param size  bytes of a part
/// @param out   gets the parts
void TakePart(ByteSpan both, Part part, std::size_t size, std::span<std::byte> out);

/// One array of a file, with its metadata.
struct ArrayInfo {
  std::string name;   ///< with its groups, as a user writes it
  std::string field;  ///< without them
  enum class Kind { kNumbers, kText, kOther };
  Kind kind = Kind::kNumbers;
  std::optional<DataType> type;            ///< type of numbers, unless it is one that fields cannot have
  GivenType given = GivenType::kStored;    ///< meaning of `type`
  bool is_complex = false;                 ///< samples have two parts of `type`
  std::string type_name;                   ///< in the words of the format, for messages
  std::vector<ArrayDimension> dimensions;  ///< slowest first
  FileAttributes attributes;
  std::vector<std::int64_t> chunk;  ///< by dimension; empty: the array lies in one piece
  /// Value that the format returns for unwritten samples, if that value then means "missing".
  std::optional<SampleValue> unwritten;
  std::optional<double> time;  ///< that the file has for the whole array
  TimeUnit time_unit;
  std::string units;             ///< unless an attribute says so
  bool ordered_by_name = false;  ///< dimensions named x, y and z are these axes, in any order
  bool is_characters = false;    ///< text: the last dimension counts characters
  bool is_scale = false;         ///< positions along a dimension, or other bookkeeping of the format
};

/// An open file of arrays.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;

  const std::vector<ArrayInfo>& arrays() const { return arrays_; }
  /// [bytes] when it was opened: libraries read zeros beyond the end of a truncated file.
  std::uint64_t size() const { return size_; }

  /// All values of an array of numbers, in the order of the file.
  virtual Result<std::vector<double>> ReadNumbers(std::size_t array) const = 0;
  /// All texts of an array of text, in the order of the file.
  /// @errors kInvalidArgument: more than kMaxTexts, or than kMaxTextBytes
  virtual Result<std::vector<std::string>> ReadTexts(std::size_t array) const = 0;
  /// Reads a block of samples of `type`, in native byte order, the last dimension fastest.
  /// @param part  kWhole unless they are complex
  /// @errors kDataLoss, without the path
  virtual Status Read(std::size_t array, Part part, const std::vector<std::uint64_t>& start,
                      const std::vector<std::uint64_t>& count, std::span<std::byte> samples) const = 0;
  /// Checks that all samples of an array exist and can be decoded.
  /// @param path      for messages
  /// @param warnings  gets a sentence for what was never written
  /// @errors kDataLoss: parts are missing, with their names; kUnavailable: a filter is not installed
  virtual Status CheckWhole(std::size_t array, const std::string& path,
                            std::vector<std::string>* warnings) const = 0;
  /// Attributes of the groups around an array; those of inner groups replace those of outer ones. Some
  /// formats have none.
  virtual FileAttributes ReadAround(std::size_t /*array*/) const { return {}; }

 protected:
  std::vector<ArrayInfo> arrays_;
  std::uint64_t size_ = 0;
};

/// How many texts an array of text has, and how many bytes each.
struct TextShape {
  std::size_t texts = 1;
  std::size_t length = 1;
};

/// @param bytes  of an element
/// @errors kInvalidArgument: more than a dataset keeps
Result<TextShape> ShapeOfTexts(const ArrayInfo& array, std::size_t bytes);

/// The inputs of the array that the user names, or of the only field of the file: one for each moment and
/// each index of a range.
Result<Inputs> OpenArrays(const InputName& name, const InputOptions& options,
                          std::shared_ptr<const ArrayFile> file);

/// That a filter of compression is missing here.
/// @param filter  its registered number
Status MissingFilter(const std::string& path, unsigned filter, const std::string& its_name);

}  // namespace quarry::input::internal
