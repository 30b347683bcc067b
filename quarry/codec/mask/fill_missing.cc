#include "quarry/codec/mask/fill_missing.h"

#include <algorithm>

namespace quarry::mask {
namespace {

/// For each entry of `filled`, the index of the nearest filled one, the lower of two equally near ones. At
/// least one is filled.
template <typename Flags>
std::vector<std::size_t> Nearest(const Flags& filled) {
  const std::size_t count = filled.size();
  std::vector<std::size_t> nearest(count, count);
  for (std::size_t i = 0, last = count; i < count; ++i) {
    if (filled[i] != 0) last = i;
    nearest[i] = last;
  }
  for (std::size_t i = count, next = count; i-- > 0;) {
    if (filled[i] != 0) next = i;
    if (nearest[i] == count || (next != count && next - i < i - nearest[i])) nearest[i] = next;
  }
  return nearest;
}

/// Splits `samples` into filled.size() equal parts; copies the nearest filled part over each unfilled one.
template <typename T>
void FillParts(const std::vector<std::uint8_t>& filled, std::span<T> samples) {
  const std::size_t size = samples.size() / filled.size();
  const std::vector<std::size_t> nearest = Nearest(filled);
  for (std::size_t i = 0; i < filled.size(); ++i) {
    if (nearest[i] != i) std::copy_n(samples.data() + nearest[i] * size, size, samples.data() + i * size);
  }
}

bool AnyOf(std::span<const std::uint8_t> flags) {
  return std::any_of(flags.begin(), flags.end(), [](std::uint8_t flag) { return flag != 0; });
}

}  // namespace

template <typename T>
std::vector<T> FillMissing(const Index3& shape, std::span<const T> samples, Validity validity) {
  const auto nx = static_cast<std::size_t>(shape[0]);
  const auto ny = static_cast<std::size_t>(shape[1]);
  const auto nz = static_cast<std::size_t>(shape[2]);
  std::vector<T> out(samples.begin(), samples.end());
  std::vector<std::uint8_t> planes(nz);
  for (std::size_t z = 0; z < nz; ++z) {
    std::vector<std::uint8_t> lines(ny);
    for (std::size_t y = 0; y < ny; ++y) {
      const std::size_t begin = nx * (y + ny * z);
      const Validity line = validity.subspan(begin, nx);
      lines[y] = AnyOf(line) ? 1 : 0;
      if (lines[y] == 0) continue;
      const std::vector<std::size_t> nearest = Nearest(line);
      for (std::size_t x = 0; x < nx; ++x) out[begin + x] = samples[begin + nearest[x]];
    }
    planes[z] = AnyOf(lines) ? 1 : 0;
    if (planes[z] != 0) FillParts(lines, std::span<T>(out).subspan(nx * ny * z, nx * ny));
  }
  FillParts(planes, std::span<T>(out));
  return out;
}

template std::vector<float> FillMissing<float>(const Index3&, std::span<const float>, Validity);
template std::vector<double> FillMissing<double>(const Index3&, std::span<const double>, Validity);

}  // namespace quarry::mask
