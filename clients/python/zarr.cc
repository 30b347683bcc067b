#include "clients/python/zarr.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <tuple>
#include <utility>

#include "clients/python/dataset.h"
#include "quarry/format/proto_convert.h"
#include "quarry/zarr/chunk_buffer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

namespace pb = ::quarry::v1;

/// The manifests that a hierarchy is made from, and the view: what is pickled.
using State =
    std::tuple<nb::bytes, std::vector<nb::bytes>, std::vector<std::string>, bool, std::optional<int>>;

nb::bytes ToBytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

template <typename Message>
Message Parse(const nb::bytes& bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw StatusError{InvalidArgument("this is not a pickled hierarchy")};
  return message;
}

/// A hierarchy, and what it was made from.
class ZarrHierarchy {
 public:
  ZarrHierarchy(DatasetDescription dataset, std::vector<pb::StepManifest> steps, const zarr::View& view)
      : dataset_(std::move(dataset)), steps_(std::move(steps)) {
    zarr::Contents contents = Take(zarr::Contents::Create(dataset_, view));
    for (const pb::StepManifest& step : steps_) contents.Add(step);
    hierarchy_ = std::make_unique<const zarr::Hierarchy>(std::move(contents));
  }

  const zarr::Hierarchy& get() const { return *hierarchy_; }

  State ToState() const {
    const zarr::View& view = hierarchy_->contents().view();
    std::vector<nb::bytes> steps;
    for (const pb::StepManifest& step : steps_) steps.push_back(ToBytes(step.SerializeAsString()));
    return {ToBytes(format::ToProto(dataset_).SerializeAsString()), std::move(steps), view.fields,
            view.float32, view.layer};
  }

 private:
  DatasetDescription dataset_;
  std::vector<pb::StepManifest> steps_;
  std::unique_ptr<const zarr::Hierarchy> hierarchy_;
};

std::unique_ptr<ZarrHierarchy> Make(const Dataset& dataset, const std::vector<const StepSummary*>& steps,
                                    std::vector<std::string> fields, bool float32, std::optional<int> layer) {
  std::vector<pb::StepManifest> records;
  for (const StepSummary* step : steps) records.push_back(format::ToProto(*step));
  return std::make_unique<ZarrHierarchy>(dataset.description(), std::move(records),
                                         zarr::View{std::move(fields), layer, float32});
}

std::unique_ptr<ZarrHierarchy> FromState(const State& state) {
  const auto& [manifest, steps, fields, float32, layer] = state;
  std::vector<pb::StepManifest> records;
  for (const nb::bytes& step : steps) records.push_back(Parse<pb::StepManifest>(step));
  return std::make_unique<ZarrHierarchy>(Take(format::FromProto(Parse<pb::DatasetManifest>(manifest))),
                                         std::move(records), zarr::View{fields, layer, float32});
}

/// Samples of the client, in the byte order of this machine, as Zarr has them.
void ToLittleEndian(std::span<std::byte> samples, std::size_t size) {
  if constexpr (std::endian::native == std::endian::little) return;
  for (std::size_t at = 0; at < samples.size(); at += size) std::ranges::reverse(samples.subspan(at, size));
}

/// Reads and decodes a chunk of a field. Damage is an error.
Result<std::shared_ptr<const Bytes>> ReadChunk(const client::Dataset& dataset,
                                               const zarr::Hierarchy& hierarchy, const zarr::Chunk& chunk,
                                               const client::CallOptions& options) {
  const zarr::ChunkQuestion question = hierarchy.QuestionOf(chunk);
  query::ReadRequest request;
  request.field = question.field;
  request.step = question.step;
  request.box = question.box;
  request.target = query::AtLevel{question.level};
  request.layer = question.layer;
  QUARRY_ASSIGN_OR_RETURN(client::LevelSamples samples, dataset.Read(request, options));
  ToLittleEndian(samples.data, SizeOf(samples.type));
  zarr::ChunkBuffer buffer(chunk);
  QUARRY_RETURN_IF_ERROR(buffer.Add(samples.extent, samples.data));
  QUARRY_RETURN_IF_ERROR(buffer.CheckComplete());
  return buffer.Take();
}

/// An array that owns its bytes.
nb::object ToArray(std::shared_ptr<const Bytes> bytes) {
  auto* const held = new std::shared_ptr<const Bytes>(std::move(bytes));
  const nb::capsule owner(
      held, [](void* values) noexcept { delete static_cast<std::shared_ptr<const Bytes>*>(values); });
  const std::size_t size = (*held)->size();
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t>((*held)->data(), 1, &size, owner));
}

/// @returns None: there is no such key
nb::object Get(const ZarrHierarchy& self, const Dataset& dataset, const std::string& key) {
  const zarr::Hierarchy& hierarchy = self.get();
  const std::optional<zarr::Entry> entry = hierarchy.Find(key);
  if (!entry) return nb::none();
  if (entry->value) return ToBytes(*entry->value);
  if (!entry->is_of_field()) {
    std::string numbers;
    hierarchy.AppendCoordinates(entry->chunk, 0, entry->size / entry->chunk.array->sample_bytes(), &numbers);
    return ToBytes(numbers);
  }
  // A small chunk is read before a signal matters.
  constexpr std::uint64_t kBriefBytes = 1 << 20;
  return ToArray(Take(dataset.Run(entry->size <= kBriefBytes,
                                  [&](const client::Dataset& opened, const client::CallOptions& options) {
                                    return ReadChunk(opened, hierarchy, entry->chunk, options);
                                  })));
}

}  // namespace

void BindZarr(nb::module_& m) {
  nb::class_<ZarrHierarchy>(m, "ZarrHierarchy", "A dataset as the keys and values of a Zarr hierarchy.")
      .def(nb::new_(&Make), "dataset"_a, "steps"_a, "fields"_a, "float32"_a, "layer"_a.none(),
           "Shows the fields of this name, in this order; all if there are none.")
      .def_static("of_state", &FromState, "state"_a)
      .def("state", &ZarrHierarchy::ToState, "What it was made from.")
      .def("get", &Get, "dataset"_a, "key"_a, "The value of a key; None where there is no such key.")
      .def(
          "size",
          [](const ZarrHierarchy& self, const std::string& key) -> std::optional<std::uint64_t> {
            const std::optional<zarr::Entry> entry = self.get().Find(key);
            return entry ? std::optional(entry->size) : std::nullopt;
          },
          "key"_a, "[bytes] of the value; None where there is no such key. Reads nothing.")
      .def(
          "children",
          [](const ZarrHierarchy& self, const std::string& path) {
            zarr::Folder folder = self.get().List(path);
            return std::pair(std::move(folder.names), folder.chunks);
          },
          "path"_a, "What is directly below a path: names, and the number of chunks, which count from 0.");
}

}  // namespace quarry::python
