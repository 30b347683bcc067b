#include "quarry/zarr/contents.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/proto_convert.h"

namespace quarry::zarr {
namespace {

namespace pb = ::quarry::v1;

std::uint64_t ChecksumOf(std::string_view text) { return Checksum(std::as_bytes(std::span(text))); }

std::uint64_t ChecksumOf(const DatasetDescription& dataset, const View& view) {
  std::string text = format::ToProto(dataset).SerializeAsString();
  if (view == View{}) return ChecksumOf(text);
  text += fmt::format("\n{} {}", view.layer.value_or(-1), view.float32);
  for (const std::string& name : view.fields) text += fmt::format(" {}:{}", name.size(), name);
  return ChecksumOf(text);
}

/// [bytes] in memory of texts and of their chunks: level l has text i where i is a multiple of 2^l.
std::uint64_t BytesOfTexts(const DatasetDescription& dataset) {
  const int levels = LevelsOf(dataset);
  std::uint64_t bytes = 0;
  for (const TextCoordinate& coordinate : dataset.texts) {
    for (std::size_t i = 0; i < coordinate.texts.size(); ++i) {
      const auto chunks =
          static_cast<std::uint64_t>(i == 0 ? levels : std::min(levels, std::countr_zero(i) + 1));
      const std::uint64_t size = coordinate.texts[i].size();
      bytes += sizeof(std::string) + size + chunks * (sizeof(std::uint32_t) + size);
    }
  }
  return bytes;
}

/// A field as it is in one of its layers: those before the last have a tolerance of their own.
FieldDescription AtLayer(FieldDescription field, int layer) {
  const auto k = static_cast<std::size_t>(layer);
  if (k >= field.rougher.size()) return field;
  field.bound = field.rougher_relative ? Bound(RelativeBound{field.rougher[k]})
                                       : Bound(AbsoluteBound{field.rougher[k]});
  return field;
}

FieldContents Show(const DatasetDescription& dataset, std::size_t number, const View& view) {
  const FieldDescription& field = dataset.fields[number];
  FieldContents shown;
  shown.layer = ShownLayer(field, view.layer);
  shown.rounded = view.float32 && field.type == DataType::kFloat64;
  shown.description = AtLayer(field, shown.layer);
  shown.max_errors.resize(static_cast<std::size_t>(dataset.GridOf(number).levels));
  return shown;
}

/// The largest loss of numbers up to a magnitude as float32, subnormal ones included.
double Rounding(double magnitude) {
  constexpr double kLargest = 3.4e38;
  if (!(magnitude < kLargest)) return std::numeric_limits<double>::infinity();
  return std::max(std::ldexp(magnitude, -24), std::ldexp(1.0, -150));
}

}  // namespace

int LevelsOf(const DatasetDescription& dataset) {
  int levels = 0;
  for (const GridDescription& grid : dataset.grids) levels = std::max(levels, grid.levels);
  return levels;
}

bool HasTimes(const std::vector<HeldStep>& steps) {
  return std::ranges::any_of(steps, [](const HeldStep& step) { return !std::isnan(step.time); });
}

double FieldContents::max_error(int level) const {
  const double error = max_errors[std::min(static_cast<std::size_t>(level), max_errors.size() - 1)];
  return rounded ? error + Rounding(magnitude + error) : error;
}

std::string FieldContents::dtype() const {
  return std::string(rounded ? Name(DataType::kFloat32) : description.given_type());
}

Contents::Contents(DatasetDescription dataset, View view)
    : dataset_(std::move(dataset)),
      view_(std::move(view)),
      checksum_(ChecksumOf(dataset_, view_)),
      text_bytes_(BytesOfTexts(dataset_)) {}

Result<Contents> Contents::Create(DatasetDescription dataset, View view) {
  Contents contents(std::move(dataset), std::move(view));
  const DatasetDescription& all = contents.dataset_;
  if (contents.view_.fields.empty())
    for (std::size_t i = 0; i < all.fields.size(); ++i)
      contents.fields_.push_back(Show(all, i, contents.view_));
  for (const std::string& name : contents.view_.fields) {
    const auto number = all.FindField(name);
    if (!number) return NotFound("there is no field \"{}\"", name);
    const auto same = [&](const FieldContents& shown) { return shown.description.name == name; };
    if (std::ranges::none_of(contents.fields_, same))
      contents.fields_.push_back(Show(all, *number, contents.view_));
  }
  std::vector<const FieldDescription*> fields;
  for (const FieldContents& shown : contents.fields_) fields.push_back(&shown.description);
  // The view is a part of the hierarchy's name: with a wrong layer, there is no such hierarchy.
  if (const Status status = CheckLayer(fields, contents.view_.layer); !status.ok())
    return NotFound("{}", status.message());
  return contents;
}

void Contents::Add(const pb::StepManifest& step) {
  HeldStep held;
  held.step = step.step();
  held.time = step.has_time() ? step.time() : std::numeric_limits<double>::quiet_NaN();
  const auto changes = [](const FieldDescription& field) { return !field.still; };
  bool counts = std::ranges::none_of(dataset_.fields, changes);
  for (const pb::FieldStep& said : step.fields()) {
    const auto number = dataset_.FindField(said.name());
    counts = counts || (number && changes(dataset_.fields[*number]));
  }
  if (counts) steps_.push_back(held);
  for (const pb::FieldStep& said : step.fields()) {
    const auto same = [&](const FieldContents& shown) { return shown.description.name == said.name(); };
    const auto field = std::ranges::find_if(fields_, same);
    if (field == fields_.end()) continue;
    held.missing = said.has_mask();
    // With that of step.json, which changes with the files.
    held.record = ChecksumOf(said.SerializeAsString() + step.checksum());
    field->steps.push_back(held);
    const auto& levels =
        field->layer < said.rougher_size() ? said.rougher(field->layer).levels() : said.levels();
    for (const pb::LevelRecord& level : levels)
      if (level.level() < field->max_errors.size())
        field->max_errors[level.level()] = std::max(field->max_errors[level.level()], level.max_error());
    if (said.valid() > 0)
      field->magnitude = std::max({field->magnitude, std::abs(said.min()), std::abs(said.max())});
  }
}

std::uint64_t Contents::bytes() const {
  // An array has a document, and is in that of its group and in that of the root.
  constexpr std::uint64_t kDocuments = 3;
  constexpr std::uint64_t kArray = kDocuments * 1024 + 512;
  constexpr std::uint64_t kAxes = 3;
  const auto levels = static_cast<std::uint64_t>(LevelsOf(dataset_));
  // As JSON, attributes may take twice their size.
  const std::uint64_t attributes = 2 * kDocuments * levels * SizeOfAttributes(dataset_);
  std::uint64_t held = steps_.size();
  for (const FieldContents& field : fields_) held += field.steps.size();
  std::uint64_t positions = 0;
  for (const GridDescription& grid : dataset_.grids)
    for (const auto& axis : grid.coordinates) positions += axis.size();
  const std::uint64_t arrays =
      levels * (3 * fields_.size() + kAxes * dataset_.grids.size() + dataset_.texts.size() + 2);
  return held * 2 * sizeof(HeldStep) + positions * sizeof(double) + text_bytes_ + arrays * kArray +
         attributes;
}

}  // namespace quarry::zarr
