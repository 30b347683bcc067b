// VTK's older files (.vtk) of structured points and rectilinear grids, in text and in binary.

#include <algorithm>
#include <cmath>

#include "quarry/base/file.h"
#include "quarry/input/dense.h"
#include "quarry/input/formats.h"
#include "quarry/input/vtk_legacy_reader.h"
#include "quarry/input/vtk_text.h"

namespace quarry::input::internal {
namespace {

Result<std::unique_ptr<Input>> OpenArray(const LegacyContents& contents, const LegacyArray& array,
                                         std::int64_t component, InputInfo info, const std::string& file) {
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const RandomAccessFile> opened, OpenShared(file));
  if (contents.ascii)
    return MakeTextInput(std::move(info), opened, array.offset, array.length, array.components, component);
  DenseLayout layout;
  layout.big_endian = true;
  layout.components = array.components;
  layout.component = component;
  return MakeDenseInput(std::move(info), layout,
                        std::make_unique<FileBytes>(opened, std::vector<Segment>{{0, array.offset}}));
}

/// The numbers of an array along one axis; empty if it is of a type without fields.
Result<std::vector<double>> ReadNumbers(const LegacyContents& contents, const LegacyArray& array,
                                        const std::string& file) {
  if (!array.type) return std::vector<double>();
  InputInfo info;
  info.path = file;
  info.dims = {array.tuples * array.components, 1, 1};
  info.type = *array.type;
  LegacyArray plain = array;
  plain.components = 1;
  QUARRY_ASSIGN_OR_RETURN(const auto input, OpenArray(contents, plain, 0, std::move(info), file));
  return NumbersIn(*input);
}

Index3 DimsOf(const LegacyContents& contents, bool of_cells) {
  Index3 dims = contents.dims;
  for (std::int64_t& n : dims) n = of_cells ? std::max<std::int64_t>(1, n - 1) : n;
  return dims;
}

bool HoldsSamples(const LegacyArray& array, const Index3& dims) {
  std::int64_t samples = 1;
  for (const std::int64_t n : dims) {
    if (__builtin_mul_overflow(samples, n, &samples)) return false;
  }
  return array.tuples == samples;
}

Variable Summarise(const LegacyContents& contents, const LegacyArray& array, const InputOptions& options) {
  Variable variable;
  variable.name = array.name;
  variable.dims = DimsOf(contents, array.of_cells);
  variable.axes = 3;
  variable.obstacle = ObstacleOfComponents(options, array.components);
  if (!array.type) {
    variable.obstacle =
        fmt::format("{} samples; only floats and integers of up to 32 bits are understood", array.type_name);
  } else if (!HoldsSamples(array, variable.dims)) {
    variable.obstacle = fmt::format("{} samples for {}", array.tuples, ToString(variable.dims));
  }
  return variable;
}

Status PlaceGrid(const LegacyContents& contents, bool of_cells, const std::string& file, InputInfo* info) {
  for (std::size_t a = 0; a < 3; ++a) {
    const bool shifted = of_cells && contents.dims[a] > 1;
    if (!contents.rectilinear) {
      info->axes[a].origin = contents.origin[a] + (shifted ? 0.5 : 0) * contents.spacing[a];
      info->axes[a].spacing = contents.spacing[a];
      continue;
    }
    if (!contents.coordinates[a]) continue;
    QUARRY_ASSIGN_OR_RETURN(std::vector<double> positions,
                            ReadNumbers(contents, *contents.coordinates[a], file));
    PlaceVtkAxis(std::move(positions), contents.coordinates[a]->type, shifted, a, info);
  }
  return Status::Ok();
}

}  // namespace

Result<Inputs> OpenLegacyVtk(const InputName& name, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(name.file));
  QUARRY_ASSIGN_OR_RETURN(const LegacyContents contents, ReadLegacy(file));
  std::vector<Variable> variables;
  for (const LegacyArray& array : contents.arrays) variables.push_back(Summarise(contents, array, options));
  QUARRY_ASSIGN_OR_RETURN(const std::size_t chosen, ChooseVariable(name, variables));
  const LegacyArray& array = contents.arrays[chosen];
  InputInfo info;
  info.path = name.variable.empty() ? fmt::format("{}:{}", name.file, array.name) : name.path;
  info.source = name.Source(array.name);
  NameField(array.name, options, &info);
  info.dims = variables[chosen].dims;
  info.type = *array.type;
  info.time = contents.title_time;
  if (contents.time) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<double> time, ReadNumbers(contents, *contents.time, name.file));
    if (time.size() == 1 && std::isfinite(time[0])) info.time = time[0];
  }
  QUARRY_RETURN_IF_ERROR(PlaceGrid(contents, array.of_cells, name.file, &info));
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  return OpenComponents(options, info, array.components, [&](InputInfo of_component, std::int64_t component) {
    return OpenArray(contents, array, component, std::move(of_component), name.file);
  });
}

}  // namespace quarry::input::internal
