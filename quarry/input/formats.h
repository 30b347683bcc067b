#pragma once

#include <map>

#include "quarry/input/input.h"

/// The readers behind OpenInputs, one per format, and their shared parts. Each reader that needs a library is
/// a separate target, which a build may leave out.
namespace quarry::input::internal {

using Inputs = std::vector<std::unique_ptr<Input>>;

/// FILE or FILE:VARIABLE, taken apart.
struct InputName {
  std::string path;      ///< as the user wrote it
  std::string file;      ///< the file, folder or pattern alone
  std::string variable;  ///< empty: none was given

  /// File name and variable without folders: InputInfo::source.
  std::string Source(const std::string& variable) const;
};

/// Takes a name apart at the last colon with a file before it, unless the whole is a file.
InputName ParseInputName(const std::string& path);

/// @errors kInvalidArgument: a variable was named in a file that has none
Status CheckNoVariable(const InputName& input);

Result<Inputs> OpenRaw(const InputName& name, const InputOptions& options);
Result<Inputs> OpenNpy(const InputName& name, const InputOptions& options);
Result<Inputs> OpenNetcdf(const InputName& name, const InputOptions& options);
Result<Inputs> OpenHdf5(const InputName& name, const InputOptions& options);
Result<Inputs> OpenTiff(const InputName& name, const InputOptions& options);
/// VTK's XML files of images and rectilinear grids: .vti, .pvti, .vtr.
Result<Inputs> OpenVti(const InputName& name, const InputOptions& options);
/// VTK's older files of text: .vtk.
Result<Inputs> OpenLegacyVtk(const InputName& name, const InputOptions& options);
Result<Inputs> OpenNpz(const InputName& name, const InputOptions& options);

/// In lower case, where it is ASCII.
std::string Lower(std::string text);

/// `name` with the characters replaced that a field name cannot have.
std::string FieldFromName(std::string name);

/// The name of a field that is called `name` in its file, unless the user gives another. Characters that have
/// to be replaced become a warning, but for the slashes of groups.
void NameField(const std::string& name, const InputOptions& options, InputInfo* info);

/// "dir/run42.f32" -> "run42", as a field name.
std::string FieldFromPath(const std::string& path);

/// The type of floats, or of integers, of so many bytes; nothing if samples have none of that size.
std::optional<DataType> FloatOf(std::size_t bytes);
std::optional<DataType> IntegerOf(std::size_t bytes, bool is_signed);

/// Reverses the bytes of every sample of `size` bytes.
void SwapBytes(std::span<std::byte> samples, std::size_t size);

/// Where the halves of samples of float16 are read to, which become float32: the end of their room.
std::span<std::byte> PlaceOfHalves(std::span<std::byte> samples);
/// Widens what lies there, in native byte order.
void WidenHalves(std::span<std::byte> samples);

/// Turns uint16 readings of float16 into samples: the same input, as float32.
std::unique_ptr<Input> WidenInput(std::unique_ptr<Input> halves);

/// A variable in a file that may hold several.
struct Variable {
  std::string name;
  Index3 dims{};         ///< x, y, z
  int axes = 0;          ///< how many there are; 0: never a field, unless it is named
  std::string obstacle;  ///< why it cannot be converted; empty if it can
};

/// The variable that the user named, or the only field: of the variables with the most axes the only one that
/// can be converted.
/// @returns its position in `variables`
/// @errors kNotFound: no variable of that name; kInvalidArgument: none or several to choose from, with a
/// list; the named one cannot be converted
Result<std::size_t> ChooseVariable(const InputName& name, const std::vector<Variable>& variables);

/// @errors kInvalidArgument: --dims or --type contradict the file
Status CheckOptions(const InputInfo& info, const InputOptions& options);

/// Copies a block of a file's array, whose axes are the grid's in another order, to its place in a box of
/// samples, x fastest.
/// @param block  samples of `part`, dense
/// @param order  the grid's axes (0 x, 1 y, 2 z) in the order of the block, slowest first
void CopyPermuted(std::span<const std::byte> block, const Box& part, const std::array<int, 3>& order,
                  std::size_t size, const Box& box, std::span<std::byte> samples);

}  // namespace quarry::input::internal
