#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/attributes.h"
#include "quarry/box.h"
#include "quarry/calendar.h"
#include "quarry/coder_id.h"
#include "quarry/data_type.h"
#include "quarry/payload_order.h"
#include "quarry/sample_value.h"

/// Description of a dataset, as plain structs: the same for files, service and clients. The meaning of each
/// value is written once, in proto/quarry/v1/dataset.proto.
namespace quarry {

/// A rectilinear grid, and how it is cut.
struct GridDescription {
  Index3 dims = {1, 1, 1};                    ///< samples, x, y, z
  std::array<double, 3> origin = {0, 0, 0};   ///< position of sample (0,0,0), in axis units
  std::array<double, 3> spacing = {1, 1, 1};  ///< in axis units; the mean along an axis with coordinates
  std::array<std::string, 3> axis_names = {"x", "y", "z"};
  std::array<std::string, 3> axis_units = {"", "", ""};
  /// Positions of all samples of an axis that is not evenly spaced, strictly monotonic; empty for the others.
  std::array<std::vector<double>, 3> coordinates;
  Index3 patch = {64, 64, 64};
  int levels = 1;
  /// Axes of its fields: a field has one sample along the others, and no dimension.
  std::array<bool, 3> has_axis = {true, true, true};
  std::array<Attributes, 3> axis_attributes;
  /// Axes without positions in the source: samples lie at 0, 1, 2, ...
  std::array<bool, 3> unplaced = {false, false, false};
  /// In which the source has the positions; all are float64 here.
  std::array<DataType, 3> position_types = {DataType::kFloat64, DataType::kFloat64, DataType::kFloat64};

  Box domain() const { return {{0, 0, 0}, dims}; }
  std::uint64_t samples() const { return static_cast<std::uint64_t>(Volume(dims)); }
};

/// One axis of a source's grid, as far as the source says.
struct SourceAxis {
  std::string name;   ///< empty: unknown
  std::string units;  ///< empty: unknown
  std::optional<double> origin;
  std::optional<double> spacing;
  /// Positions of all samples along the axis, if they are not evenly spaced; empty otherwise.
  std::vector<double> coordinates;
  bool exists = true;                  ///< false: the source names its axes, and this is none of them
  bool unplaced = false;               ///< the source names the axis, and says no positions
  DataType type = DataType::kFloat64;  ///< type of the positions in the source
  Attributes attributes;
};

/// Where a sample lies along an axis, for all who say it: each gets the same bits.
double PositionOf(const GridDescription& grid, std::size_t axis, std::int64_t sample);

/// The type in which samples came, where it is stored as another one. The numbers are stored.
enum class GivenType : std::uint8_t {
  kStored = 0,   ///< nothing but themselves
  kBool = 1,     ///< uint8: 0 is false, all else true
  kFloat16 = 2,  ///< float32
};

/// "bool", "float16"; empty: the stored type says all.
std::string_view Name(GivenType given);

/// A field holds one part of complex samples.
struct ComplexPart {
  std::string of;  ///< the name of the complex samples, which no field has
  bool imaginary = false;

  friend bool operator==(const ComplexPart&, const ComplexPart&) = default;
};

/// The field with one part of complex samples: "psi.real", "psi.imag".
std::string ComplexFieldName(const ComplexPart& part);

/// Every sample comes back bit by bit.
struct Lossless {
  static constexpr double tolerance = 0;

  friend bool operator==(const Lossless&, const Lossless&) = default;
};

/// The largest error of any sample.
struct AbsoluteBound {
  double tolerance = 0;  ///< [unit of the field]

  friend bool operator==(const AbsoluteBound&, const AbsoluteBound&) = default;
};

/// The same, as a fraction of the value range of each step.
struct RelativeBound {
  double tolerance = 0;

  friend bool operator==(const RelativeBound&, const RelativeBound&) = default;
};

/// The largest error of a sample as a fraction of its magnitude.
struct PointwiseBound {
  double tolerance = 0;

  friend bool operator==(const PointwiseBound&, const PointwiseBound&) = default;
};

/// Promise of a field about the errors of its samples.
using Bound = std::variant<Lossless, AbsoluteBound, RelativeBound, PointwiseBound>;

/// The tolerance of a bound of any kind; 0: lossless.
inline double ToleranceOf(const Bound& bound) {
  return std::visit([](const auto& kind) { return kind.tolerance; }, bound);
}

/// The tolerance of a bound of one kind; nothing: it is of another.
template <typename Kind>
std::optional<double> ToleranceAs(const Bound& bound) {
  return std::holds_alternative<Kind>(bound) ? std::optional(ToleranceOf(bound)) : std::nullopt;
}

struct FieldDescription {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order of the format
  std::string name;
  DataType type = DataType::kFloat32;
  std::string units;
  CoderId coder = CoderId::kWaveletZfp;
  Bound bound;  ///< that of the last layer of accuracy
  /// Samples with this value, bit by bit, are missing, besides NaN and infinity.
  std::optional<SampleValue> fill;
  /// Tolerances of the layers before the last, descending, for a field in several layers of accuracy.
  std::vector<double> rougher;
  bool rougher_relative = false;  ///< they are fractions of the value range of each step
  int keyframe = 0;               ///< steps may refer to others, but none needs so many; 0: none ever does
  GivenType given = GivenType::kStored;
  std::size_t grid = 0;  ///< on which its samples lie: position in DatasetDescription::grids
  Attributes attributes;
  bool still = false;       ///< it does not change with time: one step has it, and stands for all
  bool coordinate = false;  ///< it says where, when or under which conditions the samples of others are
  std::optional<ComplexPart> complex;
  /// See DatasetDescription::NumberOf.
  std::optional<std::uint32_t> number;

  /// The user's type: "float32", or "bool" for samples that are stored as another type.
  std::string_view given_type() const {
    return given == GivenType::kStored ? quarry::Name(type) : quarry::Name(given);
  }

  int layers() const { return static_cast<int>(rougher.size()) + 1; }
  bool lossless() const { return std::holds_alternative<Lossless>(bound); }
  /// Whether a tolerance is a fraction of the value range of each step.
  bool needs_range() const { return std::holds_alternative<RelativeBound>(bound) || rougher_relative; }

  /// The bits of the fill value in a sample.
  std::optional<std::uint64_t> fill_bits() const;
  /// The bits of a sample that has no value to show: those of the fill value, otherwise NaN, or 0 for
  /// integers.
  std::uint64_t no_sample_bits() const;
};

/// A coordinate of text: names of stations along an axis, or one text for the whole.
struct TextCoordinate {
  std::string name;
  std::size_t grid = 0;             ///< position in DatasetDescription::grids
  std::optional<std::size_t> axis;  ///< 0 to 2: a text for each sample along it; nothing: one text
  std::vector<std::string> texts;
  Attributes attributes;

  friend bool operator==(const TextCoordinate&, const TextCoordinate&) = default;
};

/// dataset.json
struct DatasetDescription {
  std::string created_by;
  std::vector<GridDescription> grids = {GridDescription{}};  ///< at least one
  format::PayloadOrder order = format::PayloadOrder::kPatch;
  std::vector<FieldDescription> fields;
  TimeUnit time_unit;  ///< unit of the steps' times
  /// Name of the dimension of the steps, whose coordinate is their times; empty: the coordinate is their
  /// numbers.
  std::string time_name;
  Attributes time_attributes;
  Attributes attributes;
  std::vector<TextCoordinate> texts;
  /// Steps may be in packs: programs that do not know these refuse the dataset.
  bool has_packs = false;
  /// Steps may have a coarse object, which readers of a store ask for.
  bool has_coarse_objects = false;

  /// Position of a field, or nothing.
  std::optional<std::size_t> FindField(const std::string& name) const;
  /// The grid of one of the fields.
  const GridDescription& GridOf(std::size_t field) const { return grids[fields[field].grid]; }
  const GridDescription& GridOf(const FieldDescription& field) const { return grids[field.grid]; }
  /// The number of a field in subfiles and index: its position, or a larger one where fields before it were
  /// removed.
  std::uint32_t NumberOf(std::size_t field) const {
    return fields[field].number.value_or(static_cast<std::uint32_t>(field));
  }
  /// The number of the next field that is added.
  std::uint32_t NextNumber() const { return fields.empty() ? 0 : NumberOf(fields.size() - 1) + 1; }
};

/// One subfile of a field and step, or of a mask.
struct SubfileDescription {
  std::string name;  ///< file name in the folder of the field or mask
  std::uint64_t bytes = 0;
  std::uint64_t patches = 0;
  Box bounds;                        ///< bounding box of its patches, level-0 samples
  std::uint64_t table_checksum = 0;  ///< XXH3 of its patch table, or of the root of it

  friend bool operator==(const SubfileDescription&, const SubfileDescription&) = default;
};

/// A mask, which says which samples are missing: the subfiles in its folder. Fields and steps with the same
/// missing samples share one.
struct MaskDescription {
  std::uint64_t name = 0;  ///< from the contents
  std::vector<SubfileDescription> subfiles;
  std::size_t grid = 0;  ///< that of its fields; follows from them

  std::uint64_t bytes() const;

  friend bool operator==(const MaskDescription&, const MaskDescription&) = default;
};

/// The error of one level: its samples, interpolated multilinearly to full resolution, against the original.
struct LevelRecord {
  double max_error = 0;
  double rmse = 0;
  std::uint64_t bytes = 0;  ///< payload of this level alone, without masks
  double coverage = 1;      ///< share of the valid level-0 samples that it can show, and the errors cover

  friend bool operator==(const LevelRecord&, const LevelRecord&) = default;
};

/// A layer of accuracy before the last.
struct LayerRecord {
  double tolerance = 0;             ///< largest absolute error promised for level 0 of the layer
  std::vector<LevelRecord> levels;  ///< finest first; bytes of this layer alone

  friend bool operator==(const LayerRecord&, const LayerRecord&) = default;
};

/// One field at one step, without its files. Tolerance, errors and levels are those of the last layer.
struct FieldRecord {
  std::string name;
  std::string source;    ///< name of the source input
  double tolerance = 0;  ///< largest absolute error promised for level 0, [unit of the field]
  double min = 0;        ///< minimum of the valid samples; +infinity when there is none
  double max = 0;        ///< -infinity when there is none
  double max_error = 0;  ///< largest absolute error measured at level 0
  double rmse = 0;
  double psnr = 0;  ///< [dB]; infinite when nothing was lost
  std::uint64_t raw_bytes = 0;
  std::uint64_t stored_bytes = 0;  ///< bytes of all subfiles, without those of the mask
  std::uint64_t patches = 0;
  std::uint64_t valid = 0;                ///< samples that are not missing
  std::vector<LevelRecord> levels;        ///< finest first
  std::vector<LayerRecord> rougher;       ///< the layers before the last, the roughest first
  std::vector<std::uint64_t> references;  ///< the steps to whose mean patches may refer, at most two

  /// Records of a layer, 0 the roughest.
  const std::vector<LevelRecord>& LevelsOf(int layer) const {
    const auto k = static_cast<std::size_t>(layer);
    return k < rougher.size() ? rougher[k].levels : levels;
  }
  double ToleranceOf(int layer) const {
    const auto k = static_cast<std::size_t>(layer);
    return k < rougher.size() ? rougher[k].tolerance : tolerance;
  }

  friend bool operator==(const FieldRecord&, const FieldRecord&) = default;
};

/// One field at one step, with its files.
struct FieldStepDescription : FieldRecord {
  std::vector<SubfileDescription> subfiles;
  std::optional<MaskDescription> mask;  ///< if any sample is missing

  /// Name of the mask; 0 without one.
  std::uint64_t mask_name() const { return mask ? mask->name : 0; }
};

/// step.json
struct StepDescription {
  std::uint64_t step = 0;
  std::optional<double> time;  ///< in the unit of the dataset
  std::vector<FieldStepDescription> fields;

  const FieldStepDescription* FindField(const std::string& name) const;
};

/// A mask without its files.
struct MaskSummary {
  std::uint64_t name = 0;
  std::uint64_t bytes = 0;  ///< all its subfiles together

  friend bool operator==(const MaskSummary&, const MaskSummary&) = default;
};

/// One field at one step, in a list of many steps.
struct FieldSummary : FieldRecord {
  std::optional<MaskSummary> mask;  ///< if any sample is missing

  friend bool operator==(const FieldSummary&, const FieldSummary&) = default;
};

/// step.json without files: what lists of steps have, and the catalogue of a dataset.
struct StepSummary {
  std::uint64_t step = 0;
  std::optional<double> time;  ///< in the unit of the dataset
  std::vector<FieldSummary> fields;
  std::uint64_t checksum = 0;  ///< that step.json ends with; 0 if it is not known

  const FieldSummary* FindField(const std::string& name) const;

  friend bool operator==(const StepSummary&, const StepSummary&) = default;
};

FieldSummary SummaryOf(const FieldStepDescription& field);
/// Without the checksum.
StepSummary SummaryOf(const StepDescription& step);

}  // namespace quarry
