#include "writer/encode.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <mutex>

namespace quarry::writer {
namespace {

template <typename T>
SampleScan ScanTyped(std::span<const T> samples, const Box& box, const Index3& dims) {
  SampleScan scan;
  const Index3 shape = box.shape();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double value = static_cast<double>(samples[i]);
    if (!std::isfinite(value)) {
      const auto n = static_cast<std::int64_t>(i);
      const std::int64_t x = box.begin[0] + n % shape[0];
      const std::int64_t y = box.begin[1] + n / shape[0] % shape[1];
      const std::int64_t z = box.begin[2] + n / shape[0] / shape[1];
      scan.first_not_finite = x + dims[0] * (y + dims[1] * z);
      return scan;
    }
    scan.min = value < scan.min ? value : scan.min;
    scan.max = value > scan.max ? value : scan.max;
  }
  return scan;
}

}  // namespace

SampleScan ScanSamples(DataType type, ByteSpan samples, const Box& box, const Index3& dims) {
  const auto typed = [&]<typename T>(T) {
    return ScanTyped(std::span(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T)), box,
                     dims);
  };
  return type == DataType::kFloat32 ? typed(float{}) : typed(double{});
}

Result<std::vector<EncodedPatchOfGrid>> EncodePatches(const PatchGrid& grid, const PatchCoder& coder,
                                                      DataType type, int levels, double tolerance,
                                                      std::vector<PatchSamples> patches, int threads,
                                                      const std::function<void(std::size_t)>& progress) {
  std::vector<EncodedPatchOfGrid> encoded(patches.size());
  std::mutex mutex;
  Status first_error;
  std::size_t done = 0;
  const auto encode_one = [&](std::size_t i) {
    Status status;
    try {
      const PatchLayout layout{type, grid.PatchBox(patches[i].patch_index).shape(), levels};
      Result<EncodedPatch> result = EncodePatch(coder, layout, patches[i].samples, {}, tolerance);
      if (result.ok()) {
        encoded[i] = {patches[i].patch_index, *std::move(result)};
      } else {
        status = std::move(result).status().Annotate(fmt::format("patch {}", patches[i].patch_index));
      }
      patches[i].samples = Bytes();
    } catch (const std::bad_alloc&) {
      status = InternalError("out of memory while encoding patch {}; use more ranks or smaller patches",
                             patches[i].patch_index);
    }
    const std::lock_guard lock(mutex);
    if (!status.ok() && first_error.ok()) first_error = status;
    progress(++done);
  };
  tbb::task_arena arena(threads);
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, patches.size(), encode_one); });
  QUARRY_RETURN_IF_ERROR(first_error);
  return encoded;
}

}  // namespace quarry::writer
