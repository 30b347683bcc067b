#include "benchmarks/codec/volume.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/base/file.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::bench {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 34;

Result<Bytes> ReadRaw(const std::string& path, const VolumeOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(Bytes bytes, ReadWholeFile(path, kMaxFileBytes));
  const std::uint64_t expected =
      static_cast<std::uint64_t>(quarry::Volume(options.dims)) * SizeOf(options.type);
  if (bytes.size() != expected) {
    return InvalidArgument("{} has {} bytes; {} samples of {} have {}", path, bytes.size(),
                           ToString(options.dims), Name(options.type), expected);
  }
  return bytes;
}

Bytes CutOut(ByteSpan volume, const Index3& dims, const Box& box, std::size_t sample_size) {
  const Index3 shape = box.shape();
  const std::size_t row = static_cast<std::size_t>(shape[0]) * sample_size;
  Bytes patch(row * static_cast<std::size_t>(shape[1] * shape[2]));
  std::byte* next = patch.data();
  for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
    for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
      const std::int64_t first = box.begin[0] + dims[0] * (y + dims[1] * z);
      std::memcpy(next, volume.data() + static_cast<std::size_t>(first) * sample_size, row);
      next += row;
    }
  }
  return patch;
}

template <typename T>
bool IsMissing(T value, std::optional<std::uint64_t> fill) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return true;
  }
  return fill && std::memcmp(&value, &*fill, sizeof(T)) == 0;
}

/// Fills in validity and the count of valid samples, and widens the range of the volume.
template <typename T>
void ScanPatch(std::optional<std::uint64_t> fill, Patch* patch, Volume* volume) {
  const T* samples = reinterpret_cast<const T*>(patch->samples.data());
  const std::size_t count = patch->samples.size() / sizeof(T);
  std::vector<std::uint8_t> validity(count);
  for (std::size_t i = 0; i < count; ++i) {
    validity[i] = IsMissing(samples[i], fill) ? 0 : 1;
    if (validity[i] == 0) continue;
    ++patch->valid;
    volume->min = std::min(volume->min, static_cast<double>(samples[i]));
    volume->max = std::max(volume->max, static_cast<double>(samples[i]));
  }
  if (patch->valid < count) patch->validity = std::move(validity);
}

}  // namespace

std::uint64_t FillBits(double fill, DataType type) {
  return DispatchType(type, [fill](auto sample) {
    sample = static_cast<decltype(sample)>(fill);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &sample, sizeof(sample));  // little-endian, as the files
    return bits;
  });
}

Result<Volume> LoadVolume(const VolumeOptions& options, std::int64_t edge) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes original, ReadRaw(options.input, options));
  Bytes filled;
  if (!options.filled.empty()) {
    QUARRY_ASSIGN_OR_RETURN(filled, ReadRaw(options.filled, options));
  }
  Volume volume;
  volume.options = options;
  volume.samples = static_cast<std::uint64_t>(quarry::Volume(options.dims));
  for (std::size_t a = 0; a < 3; ++a) volume.patch_shape[a] = options.dims[a] == 1 ? 1 : edge;
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(options.dims, volume.patch_shape));
  volume.levels = MaxLevels(options.dims, volume.patch_shape);
  volume.min = std::numeric_limits<double>::infinity();
  volume.max = -volume.min;
  std::optional<std::uint64_t> fill;
  if (options.fill) fill = FillBits(*options.fill, options.type);

  const std::size_t sample_size = SizeOf(options.type);
  for (const std::int64_t index : grid.MortonOrder()) {
    const Box box = grid.PatchBox(index);
    Patch& patch = volume.patches.emplace_back();
    patch.layout = {options.type, box.shape(), volume.levels};
    patch.samples = CutOut(original, options.dims, box, sample_size);
    DispatchType(options.type, [&](auto sample) { ScanPatch<decltype(sample)>(fill, &patch, &volume); });
    if (patch.validity.empty()) continue;
    volume.has_missing = true;
    if (!filled.empty()) patch.filled = CutOut(filled, options.dims, box, sample_size);
  }
  volume.has_filled = !filled.empty();
  if (!(volume.min <= volume.max)) return InvalidArgument("{} has no valid sample", options.input);
  return volume;
}

void Deviation::Add(const Patch& patch, ByteSpan decoded, double tolerance) {
  DispatchType(patch.layout.type, [&](auto sample) {
    using T = decltype(sample);
    const T* original = reinterpret_cast<const T*>(patch.samples.data());
    const T* result = reinterpret_cast<const T*>(decoded.data());
    const std::size_t count = patch.samples.size() / sizeof(T);
    for (std::size_t i = 0; i < count; ++i) {
      const bool same = std::memcmp(&original[i], &result[i], sizeof(T)) == 0;
      changed += same ? 0 : 1;
      if (!patch.validity.empty() && patch.validity[i] == 0) {
        missing_changed += same ? 0 : 1;
        continue;
      }
      const double error = std::abs(static_cast<double>(original[i]) - static_cast<double>(result[i]));
      // Written so that a NaN counts as beyond.
      beyond += error <= tolerance ? 0 : 1;
      if (!(error <= max_error)) max_error = error;
      sum_of_squares += error * error;
      ++samples;
    }
  });
}

double Deviation::Psnr(double range) const {
  return 20 * std::log10(range / std::sqrt(sum_of_squares / static_cast<double>(samples)));
}

}  // namespace quarry::bench
