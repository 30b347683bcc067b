#include "clients/python/answer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "clients/python/translate.h"
#include "quarry/base/float16.h"

namespace nb = nanobind;

namespace quarry::python {
namespace {

using client::CallOptions;
using client::LevelSamples;

/// The dtype of the samples that Python gets.
nb::dlpack::dtype TypeOf(DataType type, GivenType given) {
  if (given == GivenType::kBool) return nb::dtype<bool>();
  if (given == GivenType::kFloat16) return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
  return DispatchType(type, []<typename T>(T) { return nb::dtype<T>(); });
}

/// Stored samples as what they stand for, in the same place.
/// @returns their bytes, fewer for float16
std::size_t GiveBack(GivenType given, std::span<std::byte> bytes) {
  if (given == GivenType::kBool) {
    for (std::byte& sample : bytes) sample = sample == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  if (given != GivenType::kFloat16) return bytes.size();
  const std::size_t count = bytes.size() / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    float wide = 0;
    std::memcpy(&wide, bytes.data() + i * sizeof(wide), sizeof(wide));
    const std::uint16_t half = HalfOfFloat(wide);
    std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
  }
  return count * sizeof(std::uint16_t);
}

/// Makes missing samples of floating-point fields NaN, whatever they are in the files.
void MarkMissing(const LevelSamples& samples, std::optional<SampleValue> fill, std::span<std::byte> bytes) {
  if (!samples.may_miss && samples.left_out.empty()) return;
  DispatchType(samples.type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      const std::span typed(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
      const T missing = fill.value_or(SampleValue(std::nan(""))).As<T>().value_or(T(0));
      for (T& sample : typed)
        if (!std::isfinite(sample) || sample == missing) sample = std::numeric_limits<T>::quiet_NaN();
    }
  });
}

/// Samples of at most so many bytes are read by the calling thread: another one would take longer to start.
constexpr std::uint64_t kBriefBytes = 1 << 20;

bool IsBrief(const query::ReadRequest& request, const DatasetDescription& dataset) {
  const std::optional<std::size_t> field = dataset.FindField(request.field);
  if (!field) return true;
  const Box box = request.box.value_or(dataset.GridOf(*field).domain());
  return static_cast<double>(Volume(box.shape())) * sizeof(double) <= kBriefBytes;
}

/// The field of this name; one without properties if there is none, of which reading says so.
FieldDescription FieldOf(const DatasetDescription& dataset, const std::string& field) {
  const auto number = dataset.FindField(field);
  return number ? dataset.fields[*number] : FieldDescription();
}

}  // namespace

Answer ToAnswer(LevelSamples samples, GivenType given, const std::optional<nb::object>& out) {
  if (out) return {std::move(samples), nb::borrow<nb::any>(*out)};
  auto* const data = new Bytes(std::move(samples.data));
  const nb::capsule owner(data, [](void* held) noexcept { delete static_cast<Bytes*>(held); });
  const Index3 shape = samples.extent.shape();
  const std::array<std::size_t, 3> zyx = {static_cast<std::size_t>(shape[2]),
                                          static_cast<std::size_t>(shape[1]),
                                          static_cast<std::size_t>(shape[0])};
  nb::ndarray<nb::numpy> array(data->data(), 3, zyx.data(), owner, nullptr, TypeOf(samples.type, given));
  return {std::move(samples), nb::borrow<nb::any>(nb::cast(std::move(array)))};
}

/// @param mark  missing samples of floats become NaN
/// @param out   memory for the samples; none: a new array
Answer Read(const Dataset& self, const Question& request, bool mark,
            std::optional<nb::ndarray<nb::c_contig, nb::device::cpu>> out) {
  const FieldDescription field = FieldOf(self.description(), request.field);
  const bool widened = field.given == GivenType::kFloat16;
  Result<LevelSamples> read = self.Run(
      IsBrief(request, self.description()),
      [&](const client::Dataset& dataset, CallOptions options) -> Result<LevelSamples> {
        options.transfer = request.transfer;
        if (out) {
          options.buffer = [&](const LevelSamples& level, std::size_t bytes) -> Result<std::span<std::byte>> {
            if (!level.last()) return std::span<std::byte>();
            const std::size_t needed = widened ? bytes / 2 : bytes;
            if (out->nbytes() != needed || out->dtype() != TypeOf(level.type, field.given))
              return InvalidArgument("the array for the samples has {} bytes; it needs {} of {}",
                                     out->nbytes(), needed, field.given_type());
            return widened ? std::span<std::byte>() : std::span(static_cast<std::byte*>(out->data()), bytes);
          };
        }
        Result<LevelSamples> samples = dataset.Read(request, options);
        if (!samples.ok()) return samples;
        const std::span<std::byte> bytes =
            samples->buffer.empty() ? std::span(samples->data) : samples->buffer;
        if (mark) MarkMissing(*samples, field.fill, bytes);
        const std::size_t given = GiveBack(field.given, bytes);
        if (samples->buffer.empty()) samples->data.resize(given);
        if (out && widened) std::ranges::copy(samples->data, static_cast<std::byte*>(out->data()));
        return samples;
      });
  return ToAnswer(Take(std::move(read)), field.given, out ? std::optional(nb::cast(*out)) : std::nullopt);
}

std::unique_ptr<Feed<Streamed>> Stream(const Dataset& self, const Question& request) {
  const FieldDescription field = FieldOf(self.description(), request.field);
  return std::make_unique<Feed<Streamed>>(
      [dataset = self.share(), request, field](const CancelToken& cancel, const auto& deliver) {
        CallOptions options;
        options.cancel = cancel;
        options.transfer = request.transfer;
        return dataset->ReadLevels(
            request,
            [&](LevelSamples* samples, const client::ReadCost&) -> Status {
              MarkMissing(*samples, field.fill, samples->data);
              samples->data.resize(GiveBack(field.given, samples->data));
              if (deliver(Streamed{std::move(*samples), field.given})) return Status::Ok();
              return {StatusCode::kCancelled, "nobody takes the samples any more"};
            },
            options);
      });
}

}  // namespace quarry::python
