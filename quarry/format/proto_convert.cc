#include "quarry/format/proto_convert.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "quarry/base/checksum.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"

namespace quarry::format {
namespace {

/// An invalid value is damage where it was found.
Status Damaged(const Status& wrong) {
  return wrong.ok() ? Status::Ok() : Status(StatusCode::kDataLoss, wrong.message());
}

Status CheckVersion(std::uint32_t version) {
  if (version > 0 && version <= kManifestVersion) return Status::Ok();
  return DataLoss("format version {} is not known, this program reads up to {}; use a newer Quarry", version,
                  kManifestVersion);
}

/// Sets the bound of a message.
struct SetBound {
  pb::FieldDescription* out;

  void operator()(const Lossless& /*bound*/) const { out->set_lossless(true); }
  void operator()(const AbsoluteBound& bound) const { out->set_tolerance(bound.tolerance); }
  void operator()(const RelativeBound& bound) const { out->set_relative_tolerance(bound.tolerance); }
  void operator()(const PointwiseBound& bound) const {
    out->set_pointwise_relative_tolerance(bound.tolerance);
  }
};

Result<Bound> BoundFromProto(const pb::FieldDescription& field) {
  switch (field.bound_case()) {
    case pb::FieldDescription::kTolerance:
      return Bound(AbsoluteBound{field.tolerance()});
    case pb::FieldDescription::kRelativeTolerance:
      return Bound(RelativeBound{field.relative_tolerance()});
    case pb::FieldDescription::kPointwiseRelativeTolerance:
      return Bound(PointwiseBound{field.pointwise_relative_tolerance()});
    case pb::FieldDescription::kLossless:
      if (field.lossless()) return Bound(Lossless{});
      break;
    case pb::FieldDescription::BOUND_NOT_SET:
      break;
  }
  return DataLoss("field \"{}\" has no error bound and is not lossless", field.name());
}

pb::FieldDescription FieldToProto(const FieldDescription& field) {
  pb::FieldDescription out;
  out.set_name(field.name);
  out.set_dtype(static_cast<pb::DataType>(field.type));
  out.set_units(field.units);
  out.set_codec(std::string(Name(field.coder)));
  std::visit(SetBound{&out}, field.bound);
  if (field.fill && field.fill->is_double()) out.set_fill(field.fill->nearest());
  if (field.fill && !field.fill->is_double()) out.set_fill_integer(ToString(*field.fill));
  if (field.given != GivenType::kStored) out.set_given_type(static_cast<pb::GivenType>(field.given));
  for (const double tolerance : field.rougher) out.add_rougher(tolerance);
  out.set_rougher_relative(field.rougher_relative);
  out.set_keyframe(static_cast<std::uint32_t>(field.keyframe));
  out.set_grid(static_cast<std::uint32_t>(field.grid));
  AttributesToProto(field.attributes, out.mutable_attributes());
  out.set_still(field.still);
  out.set_coordinate(field.coordinate);
  if (field.complex) {
    out.mutable_complex()->set_of(field.complex->of);
    out.mutable_complex()->set_imaginary(field.complex->imaginary);
  }
  return out;
}

Result<FieldDescription> FieldFromProto(const pb::FieldDescription& field) {
  FieldDescription out;
  out.name = field.name();
  out.type = static_cast<DataType>(field.dtype());
  out.units = field.units();
  const Result<CoderId> coder = ParseCoder(field.codec());
  if (!coder.ok())
    return DataLoss("field \"{}\": {}; use a newer Quarry", out.name, coder.status().message());
  out.coder = *coder;
  QUARRY_ASSIGN_OR_RETURN(out.bound, BoundFromProto(field));
  if (field.has_fill()) out.fill = field.fill();
  if (field.has_fill_integer()) {
    out.fill = ParseInteger(field.fill_integer());
    if (!out.fill || field.has_fill())
      return DataLoss("field \"{}\" has the fill value \"{}\", which is not an integer or not the only one",
                      out.name, field.fill_integer());
  }
  out.given = static_cast<GivenType>(field.given_type());
  out.rougher.assign(field.rougher().begin(), field.rougher().end());
  out.rougher_relative = field.rougher_relative();
  constexpr std::uint32_t kMost = std::numeric_limits<int>::max();
  out.keyframe = static_cast<int>(std::min(field.keyframe(), kMost));
  out.grid = field.grid();
  QUARRY_ASSIGN_OR_RETURN(out.attributes, AttributesFromProto(field.attributes()));
  out.still = field.still();
  out.coordinate = field.coordinate();
  if (field.has_number()) out.number = field.number();
  if (field.has_complex()) out.complex = ComplexPart{field.complex().of(), field.complex().imaginary()};
  QUARRY_RETURN_IF_ERROR(Damaged(CheckField(out)));
  return out;
}

pb::TextCoordinate TextToProto(const TextCoordinate& text) {
  pb::TextCoordinate out;
  out.set_name(text.name);
  out.set_grid(static_cast<std::uint32_t>(text.grid));
  if (text.axis) out.set_axis(static_cast<std::uint32_t>(*text.axis));
  for (const std::string& one : text.texts) out.add_texts(one);
  AttributesToProto(text.attributes, out.mutable_attributes());
  return out;
}

Result<TextCoordinate> TextFromProto(const pb::TextCoordinate& text) {
  TextCoordinate out{text.name(), text.grid(), {}, {text.texts().begin(), text.texts().end()}, {}};
  if (text.has_axis()) out.axis = text.axis();
  QUARRY_ASSIGN_OR_RETURN(out.attributes, AttributesFromProto(text.attributes()));
  return out;
}

pb::Subfile SubfileToProto(const SubfileDescription& subfile) {
  pb::Subfile out;
  out.set_name(subfile.name);
  out.set_bytes(subfile.bytes);
  out.set_patches(subfile.patches);
  *out.mutable_bounds() = ToProto(subfile.bounds);
  out.set_table_checksum(ChecksumText(subfile.table_checksum));
  return out;
}

/// @param owner  of the subfiles, for the message
template <typename List>
Result<std::vector<SubfileDescription>> SubfilesFromProto(const List& files, const std::string& owner) {
  std::vector<SubfileDescription> out;
  for (const pb::Subfile& file : files) {
    SubfileDescription subfile;
    subfile.name = file.name();
    if (subfile.name != SubfileName(out.size()))
      return DataLoss("subfile {} of {} is called \"{}\"", out.size(), owner, subfile.name);
    subfile.bytes = file.bytes();
    subfile.patches = file.patches();
    QUARRY_ASSIGN_OR_RETURN(subfile.bounds, FromProto(file.bounds()));
    QUARRY_ASSIGN_OR_RETURN(subfile.table_checksum, ParseChecksum(file.table_checksum()));
    out.push_back(std::move(subfile));
  }
  return out;
}

pb::Mask MaskToProto(const MaskDescription& mask) {
  pb::Mask out;
  out.set_name(MaskText(mask.name));
  out.set_bytes(mask.bytes());
  for (const SubfileDescription& subfile : mask.subfiles) *out.add_subfiles() = SubfileToProto(subfile);
  return out;
}

Result<MaskDescription> MaskFromProto(const pb::Mask& mask) {
  MaskDescription out;
  QUARRY_ASSIGN_OR_RETURN(out.name, ParseChecksum(mask.name()));
  QUARRY_ASSIGN_OR_RETURN(out.subfiles, SubfilesFromProto(mask.subfiles(), "mask " + mask.name()));
  if (out.name == 0 || out.subfiles.empty())
    return DataLoss("mask \"{}\" has {} subfiles", mask.name(), out.subfiles.size());
  return out;
}

template <typename List>
void LevelsToProto(const std::vector<LevelRecord>& levels, List* out) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    pb::LevelRecord* record = out->Add();
    record->set_level(static_cast<std::uint32_t>(l));
    record->set_max_error(levels[l].max_error);
    record->set_rmse(levels[l].rmse);
    record->set_bytes(levels[l].bytes);
    record->set_coverage(levels[l].coverage);
  }
}

template <typename List>
std::vector<LevelRecord> LevelsFromProto(const List& records, std::uint32_t version) {
  std::vector<LevelRecord> levels;
  for (const pb::LevelRecord& record : records) {
    levels.push_back(
        {record.max_error(), record.rmse(), record.bytes(), version == 1 ? 1 : record.coverage()});
  }
  return levels;
}

pb::FieldStep RecordToProto(const FieldRecord& field) {
  pb::FieldStep out;
  out.set_name(field.name);
  out.set_source(field.source);
  out.set_tolerance(field.tolerance);
  out.set_min(field.min);
  out.set_max(field.max);
  out.set_max_error(field.max_error);
  out.set_rmse(field.rmse);
  out.set_psnr(field.psnr);
  out.set_raw_bytes(field.raw_bytes);
  out.set_stored_bytes(field.stored_bytes);
  out.set_patches(field.patches);
  out.set_valid(field.valid);
  LevelsToProto(field.levels, out.mutable_levels());
  for (const LayerRecord& layer : field.rougher) {
    pb::LayerRecord* record = out.add_rougher();
    record->set_tolerance(layer.tolerance);
    LevelsToProto(layer.levels, record->mutable_levels());
  }
  for (const std::uint64_t step : field.references) out.add_references(step);
  return out;
}

pb::FieldStep ToProto(const FieldStepDescription& field) {
  pb::FieldStep out = RecordToProto(field);
  for (const SubfileDescription& subfile : field.subfiles) *out.add_subfiles() = SubfileToProto(subfile);
  if (field.mask) *out.mutable_mask() = MaskToProto(*field.mask);
  return out;
}

pb::FieldStep ToProto(const FieldSummary& field) {
  pb::FieldStep out = RecordToProto(field);
  if (!field.mask) return out;
  out.mutable_mask()->set_name(MaskText(field.mask->name));
  out.mutable_mask()->set_bytes(field.mask->bytes);
  return out;
}

/// step.json, or the same without files.
template <typename Step>
pb::StepManifest StepToProto(const Step& step) {
  pb::StepManifest out;
  out.set_format_version(kManifestVersion);
  out.set_step(step.step);
  if (step.time) out.set_time(*step.time);
  for (const auto& field : step.fields) *out.add_fields() = ToProto(field);
  return out;
}

/// @param declared  null: dataset.json does not know the field, nor its grid
Result<FieldRecord> RecordFromProto(const pb::FieldStep& field, std::uint32_t version,
                                    const DatasetDescription& dataset, const FieldDescription* declared) {
  FieldRecord out;
  out.name = field.name();
  QUARRY_RETURN_IF_ERROR(Damaged(CheckFieldName(out.name)));
  out.source = field.source();
  out.tolerance = field.tolerance();
  out.min = field.min();
  out.max = field.max();
  out.max_error = field.max_error();
  out.rmse = field.rmse();
  out.psnr = field.psnr();
  out.raw_bytes = field.raw_bytes();
  out.stored_bytes = field.stored_bytes();
  out.patches = field.patches();
  const std::uint64_t samples = declared != nullptr ? dataset.GridOf(*declared).samples() : field.valid();
  out.valid = version == 1 ? samples : field.valid();
  out.levels = LevelsFromProto(field.levels(), version);
  for (const pb::LayerRecord& layer : field.rougher())
    out.rougher.push_back({layer.tolerance(), LevelsFromProto(layer.levels(), version)});
  out.references.assign(field.references().begin(), field.references().end());
  if (out.references.size() > 2)
    return DataLoss("field \"{}\" refers to {} steps; the maximum is 2", out.name, out.references.size());
  return out;
}

Status FilesFromProto(const pb::FieldStep& field, const FieldDescription* declared,
                      FieldStepDescription* out) {
  QUARRY_ASSIGN_OR_RETURN(out->subfiles,
                          SubfilesFromProto(field.subfiles(), fmt::format("field \"{}\"", out->name)));
  if (!field.has_mask()) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(out->mask, MaskFromProto(field.mask()));
  if (declared != nullptr) out->mask->grid = declared->grid;
  return Status::Ok();
}

Status FilesFromProto(const pb::FieldStep& field, const FieldDescription* /*declared*/, FieldSummary* out) {
  if (!field.has_mask()) return Status::Ok();
  out->mask.emplace();
  QUARRY_ASSIGN_OR_RETURN(out->mask->name, ParseChecksum(field.mask().name()));
  out->mask->bytes = field.mask().bytes();
  return Status::Ok();
}

template <typename Step>
Result<Step> StepFromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(CheckVersion(manifest.format_version()));
  Step out;
  out.step = manifest.step();
  if (manifest.has_time()) out.time = manifest.time();
  std::map<std::string_view, const FieldDescription*> known;
  for (const FieldDescription& field : dataset.fields) known.emplace(field.name, &field);
  for (const pb::FieldStep& field : manifest.fields()) {
    const auto found = known.find(field.name());
    const FieldDescription* const declared = found != known.end() ? found->second : nullptr;
    auto& added = out.fields.emplace_back();
    QUARRY_ASSIGN_OR_RETURN(static_cast<FieldRecord&>(added),
                            RecordFromProto(field, manifest.format_version(), dataset, declared));
    QUARRY_RETURN_IF_ERROR(FilesFromProto(field, declared, &added));
  }
  QUARRY_RETURN_IF_ERROR(Damaged(CheckStep(out, dataset)));
  return out;
}

Result<std::vector<GridDescription>> GridsFromProto(const pb::DatasetManifest& manifest) {
  std::vector<GridDescription> grids;
  if (static_cast<std::size_t>(manifest.grids_size()) > kMaxGrids)
    return DataLoss("there are {} grids; the maximum is {}", manifest.grids_size(), kMaxGrids);
  for (const pb::Grid& grid : manifest.grids()) {
    QUARRY_ASSIGN_OR_RETURN(grids.emplace_back(), FromProto(grid));
  }
  if (grids.empty()) {
    // A server from before there were several grids sends the only one in fields that the message no longer
    // knows.
    pb::OneGrid one;
    if (!one.ParseFromString(manifest.SerializeAsString()) || !one.has_grid())
      return DataLoss("there is no grid");
    QUARRY_ASSIGN_OR_RETURN(grids.emplace_back(), FromProto(GridOf(std::move(one))));
  }
  return grids;
}

}  // namespace

pb::Grid GridOf(pb::OneGrid one) {
  pb::Grid grid = std::move(*one.mutable_grid());
  *grid.mutable_patch() = std::move(*one.mutable_patch());
  grid.set_levels(one.levels());
  return grid;
}

pb::DatasetManifest ToProto(const DatasetDescription& dataset) {
  pb::DatasetManifest out;
  out.set_format_version(kManifestVersion);
  out.set_created_by(dataset.created_by);
  for (const GridDescription& grid : dataset.grids) *out.add_grids() = ToProto(grid);
  out.set_order(static_cast<pb::PayloadOrder>(dataset.order));
  for (std::size_t f = 0; f < dataset.fields.size(); ++f) {
    *out.add_fields() = FieldToProto(dataset.fields[f]);
    if (const std::uint32_t number = dataset.NumberOf(f); number != f)
      out.mutable_fields(static_cast<int>(f))->set_number(number);
  }
  AttributesToProto(dataset.attributes, out.mutable_attributes());
  for (const TextCoordinate& text : dataset.texts) *out.add_texts() = TextToProto(text);
  if (dataset.time_unit != TimeUnit{} || !dataset.time_name.empty() || !dataset.time_attributes.empty()) {
    pb::TimeAxis* const time = out.mutable_time();
    time->set_units(dataset.time_unit.units);
    time->set_calendar(dataset.time_unit.calendar);
    time->set_name(dataset.time_name);
    AttributesToProto(dataset.time_attributes, time->mutable_attributes());
  }
  return out;
}

Result<DatasetDescription> FromProto(const pb::DatasetManifest& manifest) {
  QUARRY_RETURN_IF_ERROR(CheckVersion(manifest.format_version()));
  DatasetDescription out;
  out.created_by = manifest.created_by();
  QUARRY_ASSIGN_OR_RETURN(out.grids, GridsFromProto(manifest));
  const auto* const order = std::ranges::find(kPayloadOrders, static_cast<int>(manifest.order()),
                                              [](PayloadOrder known) { return static_cast<int>(known); });
  if (order == kPayloadOrders.end())
    return DataLoss("the payload order is not known; use a newer Quarry, unless the file is damaged");
  out.order = *order;
  for (const pb::FieldDescription& field : manifest.fields()) {
    QUARRY_ASSIGN_OR_RETURN(out.fields.emplace_back(), FieldFromProto(field));
  }
  out.time_unit = {manifest.time().units(), manifest.time().calendar()};
  out.time_name = manifest.time().name();
  QUARRY_ASSIGN_OR_RETURN(out.time_attributes, AttributesFromProto(manifest.time().attributes()));
  QUARRY_ASSIGN_OR_RETURN(out.attributes, AttributesFromProto(manifest.attributes()));
  for (const pb::TextCoordinate& text : manifest.texts()) {
    QUARRY_ASSIGN_OR_RETURN(out.texts.emplace_back(), TextFromProto(text));
  }
  QUARRY_RETURN_IF_ERROR(Damaged(CheckDataset(out)));
  return out;
}

pb::StepManifest ToProto(const StepDescription& step) { return StepToProto(step); }
pb::StepManifest ToProto(const StepSummary& step) {
  pb::StepManifest out = StepToProto(step);
  if (step.checksum != 0) out.set_checksum(ChecksumText(step.checksum));
  return out;
}

Result<StepDescription> FromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset) {
  return StepFromProto<StepDescription>(manifest, dataset);
}

Result<StepSummary> SummaryFromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(StepSummary step, StepFromProto<StepSummary>(manifest, dataset));
  if (!manifest.checksum().empty()) {
    QUARRY_ASSIGN_OR_RETURN(step.checksum, ParseChecksum(manifest.checksum()));
  }
  return step;
}

}  // namespace quarry::format
