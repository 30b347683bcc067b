#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/attributes.h"
#include "quarry/base/endian.h"
#include "quarry/base/missing.h"
#include "quarry/base/status.h"
#include "quarry/box.h"
#include "quarry/calendar.h"
#include "quarry/data_type.h"
#include "quarry/description.h"

/// Dumps in foreign formats, read box by box. Nothing here knows MPI: every rank reads its own boxes.
namespace quarry::input {

/// Samples that the user chooses along an axis that is none of the grid's: "channel=1", or "channel=0:2".
struct IndexChoice {
  std::string axis;
  std::int64_t begin = 0;
  std::int64_t end = 0;   ///< half-open
  bool is_range = false;  ///< written as a range, which becomes steps (of time) or fields
};

/// Parses "NAME=K" or "NAME=BEGIN:END".
/// @errors kInvalidArgument
Result<IndexChoice> ParseIndexChoice(const std::string& text);

/// The user's options for inputs; all of it may also come from a file's name or from the file itself.
struct InputOptions {
  std::string format;  ///< a name of KnownFormats(), or empty: from the file name
  std::optional<Index3> dims;
  std::optional<DataType> type;
  GivenType given = GivenType::kStored;  ///< meaning of `type`
  bool big_endian = false;
  /// Bytes before the first sample; the file may then go on behind the last. Without it the samples are all
  /// of the file.
  std::optional<std::uint64_t> offset;
  bool fortran_records = false;  ///< samples lie in records of Fortran's sequential unformatted files
  std::string field;             ///< empty: from the file
  /// One letter for each dimension of an array, slowest first, as "tzyx" or "zyxc": x, y and z are axes of
  /// the grid, t is time, others are chosen by `index`. Empty: from the file.
  std::string axes;
  std::vector<IndexChoice> index;
  bool single = false;  ///< a single number is a field of one sample, and no mistake
};

/// Metadata of a file besides samples and positions.
struct FileWords {
  Attributes dataset;  ///< attributes of the file as a whole
  Attributes field;
  std::string time_name;  ///< name of the coordinate of time; empty: there is none
  Attributes time;
  std::vector<TextCoordinate> texts;  ///< without their grid; axes 0 to 2 are x, y, z
  /// Variables of the file that say where the samples are, and stand still: fields of their own.
  std::vector<std::string> coordinates;
};

/// Contents of a dump: one field at one moment.
struct InputInfo {
  std::string path;    ///< as the user wrote it, the variable included: for messages
  std::string source;  ///< file name and variable without folders: what step.json keeps
  std::string field;
  Index3 dims{};
  DataType type = DataType::kFloat32;
  GivenType given = GivenType::kStored;  ///< meaning of `type`
  std::optional<ComplexPart> complex;    ///< part of complex samples; `type` is the type of the part
  std::string units;
  std::optional<SampleValue> fill;  ///< the file's own value of missing samples, exactly as in a sample
  std::optional<double> time;
  TimeUnit time_unit;                      ///< unit of `time`
  std::array<SourceAxis, 3> axes;          ///< x, y, z
  std::shared_ptr<const FileWords> words;  ///< null: none; all moments of a file share them
  /// Metadata of the file that this input does not use, or lacks: whole sentences for the user.
  std::vector<std::string> warnings;
  /// Samples x, y, z of the smallest part worth reading on its own (an image of a stack, a chunk); units
  /// begin at sample (0,0,0).
  Index3 unit = {1, 1, 1};
};

/// A dump that is open for reading.
class Input {
 public:
  virtual ~Input() = default;

  const InputInfo& info() const { return info_; }

  /// Reads a box of samples, in native byte order, x fastest.
  /// @param samples  exactly the bytes of the box
  /// @errors kDataLoss: the file is damaged or shorter than it says, with path and offset
  /// @threads one caller at a time; local: every rank reads its own part
  virtual Status ReadBox(const Box& box, std::span<std::byte> samples) const = 0;

  /// Images of a stack that ReadBox has read so far, rereads included; 0 for all other formats.
  virtual std::uint64_t images_read() const { return 0; }

 protected:
  explicit Input(InputInfo info) : info_(std::move(info)) {}

  InputInfo info_;
};

/// Finds out what `path` holds and checks that its size fits. Understands names like
/// `run-pressure-[128-64-64]-Float32.raw`, NumPy's .npy (C order, shape [z, y, x]), and `FILE:VARIABLE` in
/// formats that hold several variables.
/// @returns one input for each moment and each index chosen as a range, in order: several fields, or several
/// moments of one
/// @errors kNotFound: no such file or variable; kInvalidArgument: dims, type or size do not fit, with both
/// numbers; kUnavailable: this build has no reader for the format, with the missing library
Result<std::vector<std::unique_ptr<Input>>> OpenInputs(const std::string& path, const InputOptions& options);

/// Opens an array of NumPy, for programs without the readers of other formats.
/// @errors kNotFound: no such file; kInvalidArgument: it is no such array
Result<std::vector<std::unique_ptr<Input>>> OpenNumpyArray(const std::string& path);

/// Whether a dimension of this name is never an axis of a grid: "member", "channel", "mode", ...
bool IsNoAxis(const std::string& name);

/// Whether a dimension of this name brings the steps, where nothing that the source says contradicts it:
/// "time", "step", "frame", ...
bool NamesSteps(const std::string& name);

/// Whether a dimension brings the steps by its name and what its coordinate says.
/// @param is_slowest  nothing varies more slowly
/// @param axis, units  attributes of the coordinate; empty: there is none
bool BringsSteps(const std::string& name, bool is_slowest, const std::string& axis, const std::string& units);

/// Whether the numbers along a dimension of this name are step numbers, not times: "step", "frame", ...
bool CountsSteps(const std::string& name);

/// Whether a coordinate with these attributes is time. Its name says nothing.
bool SaysTime(const std::string& axis, const std::string& standard_name, const std::string& units);

/// A variable's name, dimensions and attributes.
struct VariableWords {
  std::string name;
  std::vector<std::string> dimensions;
  std::map<std::string, std::string> attributes;  ///< attributes that are texts
};

/// Which variables of one source are never fields: bounds, grid mappings, and coordinates that others name.
std::vector<bool> FindHelpers(const std::vector<VariableWords>& variables);

/// Origin and spacing of an axis from the positions of its samples; also `coordinates`, unless the positions
/// are evenly spaced within a millionth of the spacing or the precision in which they are stored. Positions
/// that are not finite and strictly monotonic are ignored: the axis stays as it is.
/// @param stored  the type of the positions in the file; float64 and integers are exact
void PlaceAxis(const std::vector<double>& positions, std::optional<DataType> stored, SourceAxis* axis);

/// Whether a slowest dimension without a coordinate has a vertical name: "level", "depth", "nz", ... Others
/// are a guess.
bool NamesVertical(const std::string& name);

/// The file of FILE:VARIABLE.
std::string FileOf(const std::string& path);

/// The values of --format in this build.
std::vector<std::string> KnownFormats();

/// Reads a box into a new buffer.
Result<Bytes> ReadBox(const Input& input, const Box& box);

}  // namespace quarry::input
