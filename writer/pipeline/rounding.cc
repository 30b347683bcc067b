#include "writer/pipeline/rounding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/base/missing.h"
#include "writer/distribution/placement.h"

namespace quarry::writer {
namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

/// The neighbour of `rounded` that is nearer to `value`: for a valid sample that rounds to the fill value.
float Beside(float rounded, double value) {
  const float below = std::nextafter(rounded, -std::numeric_limits<float>::infinity());
  const float above = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  if (!std::isfinite(above)) return below;
  if (!std::isfinite(below)) return above;
  return value - static_cast<double>(below) < static_cast<double>(above) - value ? below : above;
}

}  // namespace

Status Float32Rounding::RoundRow(const std::byte* first, std::int64_t stride, const Index3& position,
                                 std::span<float> out, double* change) {
  const std::optional<std::uint64_t> fill = field_.fill_bits();
  const auto missing = std::bit_cast<float>(static_cast<std::uint32_t>(field_.no_sample_bits()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    double value = 0;
    std::memcpy(&value, first + static_cast<std::int64_t>(i) * stride, sizeof(value));
    if (IsMissing(value, source_fill_)) {
      out[i] = missing;
      continue;
    }
    const auto at = [&] {
      return Index3{position[0] + static_cast<std::int64_t>(i), position[1], position[2]};
    };
    if (std::abs(value) > kLargestFloat) {
      return InvalidArgument(
          "{} of \"{}\" at sample ({}) is beyond float32 (at most {}); leave --store-as out, or declare it "
          "missing "
          "(--fill)",
          value, field_.name, fmt::join(at(), ","), kLargestFloat);
    }
    auto rounded = static_cast<float>(value);
    if (fill && SampleBits(rounded) == *fill) rounded = Beside(rounded, value);
    const double difference = std::abs(static_cast<double>(rounded) - value);
    if (difference > 0 && field_.lossless()) {
      return InvalidArgument(
          "{} of \"{}\" at sample ({}) is not a value of float32, so --store-as float32 would change it; "
          "leave --lossless out and give --tolerance or --relative, or leave --store-as out",
          value, field_.name, fmt::join(at(), ","));
    }
    *change = std::max(*change, difference);
    out[i] = rounded;
  }
  return Status::Ok();
}

Status Float32Rounding::Round(const BoxView& samples, const Box& box, const PatchGrid& grid,
                              const Index3& origin, PatchChanges* changes, std::span<float> out) {
  const Index3 shape = box.shape();
  Status status;
  distribution::ForEachPatch(grid, box, [&](std::int64_t patch) {
    const Box part = Intersect(grid.PatchBox(patch), box);
    double& change = (*changes)[patch];
    for (std::int64_t z = part.begin[2]; z < part.end[2]; ++z) {
      for (std::int64_t y = part.begin[1]; y < part.end[1] && status.ok(); ++y) {
        const Index3 in_box = {part.begin[0] - box.begin[0], y - box.begin[1], z - box.begin[2]};
        const std::int64_t to = in_box[0] + shape[0] * (in_box[1] + shape[1] * in_box[2]);
        const std::byte* from = samples.data;
        for (std::size_t a = 0; a < 3; ++a) from += in_box[a] * samples.stride[a];
        status = RoundRow(
            from, samples.stride[0], {origin[0] + part.begin[0], origin[1] + y, origin[2] + z},
            out.subspan(static_cast<std::size_t>(to), static_cast<std::size_t>(part.shape()[0])), &change);
      }
    }
  });
  return status;
}

std::optional<SampleValue> StoredFill(DataType type, std::optional<SampleValue> fill) {
  if (!fill || type != DataType::kFloat32 || !std::isfinite(fill->nearest())) return fill;
  if (std::abs(fill->nearest()) > kLargestFloat) return std::nullopt;
  return static_cast<double>(static_cast<float>(fill->nearest()));
}

double ToleranceAfter(double tolerance, double change) {
  if (change == 0) return tolerance;
  return std::max(0.0, std::nextafter(tolerance - change, 0.0));  // the difference may have been rounded up
}

void AddChange(double change, double tolerance, std::span<LevelError> errors) {
  if (change == 0) return;
  const double coder = ToleranceAfter(tolerance, change);
  for (LevelError& error : errors) {
    const double sum = std::nextafter(error.max_error + change, std::numeric_limits<double>::infinity());
    error.max_error = error.max_error <= coder ? std::min(sum, tolerance) : sum;
    error.rmse += change;
  }
}

bool ChangesTooMuch(double tolerance, double change) {
  return change > 0 && ToleranceAfter(tolerance, change) == 0;
}

Status ChangeRefusal(const FieldDescription& field, const Box& box, double change, double tolerance) {
  return InvalidArgument(
      "storing \"{}\" as float32 changes a sample in {} by {}, but its tolerance is {}; give a larger "
      "tolerance, or "
      "leave --store-as out",
      field.name, ToString(box), change, tolerance);
}

}  // namespace quarry::writer
