#pragma once

#include <unordered_map>
#include <vector>

#include "quarry/description.h"
#include "quarry/geometry/patch_grid.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/field_source.h"

/// Fields that store float32 of a float64 source (--store-as). Rounding changes samples; the largest change
/// in a patch is subtracted from its coder's tolerance, so that the tolerance holds against the source.
namespace quarry::writer {

/// The largest change of a sample, by patch: of the patches that a rank has samples of, or encodes.
using PatchChanges = std::unordered_map<std::int64_t, double>;

/// Rounds the samples of one rank.
class Float32Rounding {
 public:
  /// @param source_fill  bits of the source's 8-byte fill value, or nothing
  Float32Rounding(const FieldDescription& field, std::optional<std::uint64_t> source_fill)
      : field_(field), source_fill_(source_fill) {}

  /// Every sample to the nearest float32, but no valid one to the field's fill value. Missing samples get the
  /// fill value, or NaN where the field has none.
  /// @param grid     of the patches; `box` lies in it
  /// @param origin   of `grid` in the coordinates of messages
  /// @param changes  the largest change of a valid sample so far, of the patches of `grid` in `box`: entries
  /// are added
  /// @param out      the samples of `box`, dense, x fastest
  /// @errors kInvalidArgument: a value beyond float32, or one that float32 cannot hold in a lossless field
  Status Round(const BoxView& samples, const Box& box, const PatchGrid& grid, const Index3& origin,
               PatchChanges* changes, std::span<float> out);

 private:
  Status RoundRow(const std::byte* first, std::int64_t stride, const Index3& position, std::span<float> out,
                  double* change);

  const FieldDescription& field_;
  std::optional<std::uint64_t> source_fill_;
};

/// The fill value of a field of `type` for a source with `fill`: the nearest value of the type, or nothing
/// (NaN then stands for missing samples) if none is near.
std::optional<SampleValue> StoredFill(DataType type, std::optional<SampleValue> fill);

/// The tolerance left for the coder of a patch whose samples rounding changes by up to `change`: above 0 if
/// `change` is below the tolerance and not within a rounding error of it.
double ToleranceAfter(double tolerance, double change);

/// Turns errors against the rounded samples into bounds of the errors against the source.
/// @param tolerance  of the layer: a level that the coder has kept within ToleranceAfter stays within it
void AddChange(double change, double tolerance, std::span<LevelError> errors);

/// Whether the samples of a patch change by as much as the tolerance, or more.
bool ChangesTooMuch(double tolerance, double change);
/// @param box     of the patch in the whole grid
/// @param change  that is too much
/// @errors kInvalidArgument, always
Status ChangeRefusal(const FieldDescription& field, const Box& box, double change, double tolerance);

}  // namespace quarry::writer
