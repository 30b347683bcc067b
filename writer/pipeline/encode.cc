#include "writer/pipeline/encode.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <mutex>

#include "quarry/base/missing.h"
#include "writer/pipeline/rounding.h"

namespace quarry::writer {
namespace {

template <typename T>
SampleScan ScanTyped(std::span<const T> samples, std::optional<std::uint64_t> fill) {
  SampleScan scan;
  for (const T sample : samples) {
    if (IsMissing(sample, fill)) continue;
    const double value = static_cast<double>(sample);
    scan.min = value < scan.min ? value : scan.min;
    scan.max = value > scan.max ? value : scan.max;
    ++scan.valid;
  }
  return scan;
}

}  // namespace

SampleScan ScanSamples(DataType type, ByteSpan samples, std::optional<std::uint64_t> fill) {
  return DispatchType(type, [&]<typename T>(T) {
    return ScanTyped(std::span(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T)), fill);
  });
}

Result<std::vector<EncodedPatchOfGrid>> EncodePatches(const PatchGrid& grid, const EncodeSettings& settings,
                                                      std::vector<PatchSamples> patches, int threads,
                                                      const std::function<void(std::size_t)>& progress) {
  const PatchCoder* coder = FindCoder(settings.coder);
  if (coder == nullptr)
    return InvalidArgument("coder {} is not in this version", static_cast<int>(settings.coder));
  std::vector<EncodedPatchOfGrid> encoded(patches.size());
  std::mutex mutex;
  Status first_error;
  std::size_t done = 0;
  const auto encode_one = [&](std::size_t i) {
    Status status;
    try {
      const PatchLayout layout{settings.type, grid.PatchBox(patches[i].patch_index).shape(), settings.levels};
      const double change = patches[i].change;
      Result<EncodedPatch> result = EncodePatch(*coder, layout, patches[i].samples, settings.fill,
                                                ToleranceAfter(settings.tolerance, change));
      if (result.ok()) {
        AddChange(change, settings.tolerance, &result->errors);
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
