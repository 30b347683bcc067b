#include "quarry/input/hdf5_mesh.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quarry/input/hdf5_attributes.h"

namespace quarry::input::internal {
namespace {

/// "kg s^-2 A^-1", or the name of the unit if it has one.
/// @param powers  of length, mass, time, current, temperature, amount, luminous intensity
std::string SiUnit(const std::vector<double>& powers) {
  if (powers.size() != 7) return "";
  static const auto& kNamed = *new const std::vector<std::pair<std::array<double, 7>, const char*>>{
      {{0, 1, -2, -1, 0, 0, 0}, "T"},    {{1, 1, -3, -1, 0, 0, 0}, "V/m"}, {{2, 1, -3, -1, 0, 0, 0}, "V"},
      {{-1, 1, -2, 0, 0, 0, 0}, "Pa"},   {{1, 0, -1, 0, 0, 0, 0}, "m/s"},  {{-3, 1, 0, 0, 0, 0, 0}, "kg/m^3"},
      {{-3, 0, 1, 1, 0, 0, 0}, "C/m^3"}, {{-2, 0, 0, 1, 0, 0, 0}, "A/m^2"}};
  for (const auto& [named, name] : kNamed) {
    if (std::equal(named.begin(), named.end(), powers.begin())) return name;
  }
  constexpr std::array<const char*, 7> kBase = {"m", "kg", "s", "A", "K", "mol", "cd"};
  std::string unit;
  for (std::size_t i = 0; i < kBase.size(); ++i) {
    if (powers[i] == 0) continue;
    if (!unit.empty()) unit += ' ';
    unit += kBase[i];
    if (powers[i] != 1) unit += fmt::format("^{}", powers[i]);
  }
  return unit;
}

/// Lists of the standard follow the order of dimensions in the writing program: for Fortran, the reverse of
/// ours.
template <typename T>
std::vector<T> AlongDimensions(std::vector<T> list, std::size_t rank, bool fortran) {
  if (list.size() != rank) return {};
  if (fortran) std::reverse(list.begin(), list.end());
  return list;
}

}  // namespace

std::optional<OpenPmdMesh> FindMesh(hid_t file, hid_t dataset, const std::string& path, std::size_t rank) {
  const Handle group(H5Gopen2(file, Parent(path).c_str(), H5P_DEFAULT), H5Gclose);
  OpenPmdMesh mesh;
  hid_t owner = dataset;
  if (H5Aexists(owner, "gridSpacing") <= 0) {
    mesh.component = true;
    owner = group.get();
    if (owner < 0 || H5Aexists(owner, "gridSpacing") <= 0) return std::nullopt;
  }
  const bool fortran = Text(owner, "dataOrder") == "F";
  mesh.geometry = Text(owner, "geometry");
  // The modes of thetaMode come before the dimensions that the lists describe.
  const std::size_t described = mesh.geometry == "thetaMode" && rank == 3 ? 2 : rank;
  mesh.labels = AlongDimensions(Texts(owner, "axisLabels"), described, fortran);
  mesh.spacing = AlongDimensions(Numbers(owner, "gridSpacing"), described, fortran);
  mesh.offset = AlongDimensions(Numbers(owner, "gridGlobalOffset"), described, fortran);
  mesh.position = AlongDimensions(Numbers(dataset, "position"), described, fortran);
  mesh.unit = Number(owner, "gridUnitSI").value_or(1);
  mesh.units = SiUnit(Numbers(owner, "unitDimension"));
  const double factor = Number(dataset, "unitSI").value_or(1);
  if (factor != 1 && !mesh.units.empty()) mesh.units = fmt::format("{} {}", factor, mesh.units);
  return mesh;
}

void DescribeMesh(const OpenPmdMesh& mesh, ArrayInfo* array) {
  std::vector<ArrayDimension>& dimensions = array->dimensions;
  const std::size_t modes = mesh.geometry == "thetaMode" && dimensions.size() == 3 ? 1 : 0;
  if (modes == 1) {
    dimensions[0].name = "mode";
    dimensions[0].role = Role::kOther;
  }
  for (std::size_t i = modes; i < dimensions.size(); ++i) {
    const std::size_t d = i - modes;
    SourceAxis& axis = dimensions[i].described;
    if (!mesh.labels.empty()) dimensions[i].name = axis.name = mesh.labels[d];
    if (mesh.geometry == "cartesian") axis.units = "m";
    if (mesh.spacing.empty() || mesh.offset.empty()) continue;
    const double shift = mesh.position.empty() ? 0 : mesh.position[d] * mesh.spacing[d];
    axis.origin = (mesh.offset[d] + shift) * mesh.unit;
    axis.spacing = mesh.spacing[d] * mesh.unit;
  }
  array->units = mesh.units;
  array->ordered_by_name = !mesh.labels.empty();
  if (!mesh.component) return;
  const std::string record = Parent(array->name);
  array->field = fmt::format("{}_{}", record.substr(record.rfind('/') + 1), array->field);
}

void FindTime(hid_t file, ArrayInfo* array) {
  std::string path = array->name;
  while (path != "/") {
    path = Parent(path);
    const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group.ok()) return;
    const std::optional<double> time = Number(group.get(), "time");
    if (!time) continue;
    const std::optional<double> si = Number(group.get(), "timeUnitSI");
    if (const double seconds = *time * si.value_or(1); std::isfinite(seconds)) array->time = seconds;
    if (si) array->time_unit.units = "s";
    return;
  }
}

std::optional<std::pair<const char*, const char*>> FindOtherMesh(hid_t file) {
  constexpr const char* kBlocks =
      "blocks, which Quarry does not read as one grid yet; write them to one uniform grid first "
      "(yt: arbitrary_grid)";
  constexpr const char* kCells =
      "cells without a regular grid; resample it and save it as .vti, as with ParaView's "
      "ResampleToImage";

  const auto has = [&](const char* path) { return H5Lexists(file, path, H5P_DEFAULT) > 0; };
  const auto marked = [&](const char* name) { return H5Aexists(file, name) > 0; };
  if (has("bounding box") && has("refine level")) return std::pair("a FLASH file", kBlocks);
  if (has("Chombo_global")) return std::pair("a Chombo file", kBlocks);
  if (has("Grid00000001")) return std::pair("an Enzo file", kBlocks);
  if (marked("NumMeshBlocks") && marked("MeshBlockSize")) return std::pair("an Athena++ file", kBlocks);
  if (has("Info") && has("Blocks") && H5Aexists_by_name(file, "Info", "NumMeshBlocks", H5P_DEFAULT) > 0)
    return std::pair("a Parthenon file", kBlocks);
  if (has("meshes") && has("settings")) return std::pair("a file of Fluent", kCells);
  if (has("Mesh") && H5Lexists(file, "Mesh/mesh", H5P_DEFAULT) > 0)
    return std::pair("a file of DOLFINx", kCells);
  if (has("VTKHDF")) {
    const Handle group(H5Gopen2(file, "VTKHDF", H5P_DEFAULT), H5Gclose);
    return std::pair("a VTKHDF file",
                     Text(group.get(), "Type").starts_with("Overlapping") ? kBlocks : kCells);
  }
  return std::nullopt;
}

}  // namespace quarry::input::internal
