#include "clients/cpp/grpc/answer_receiver.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {

namespace pb = ::quarry::v1;

namespace {

/// Whether the spacing of an answer's samples is that of its level.
bool SpacingFits(const GridDescription& grid, const query::ReadRequest& request,
                 const query::LevelExtent& level) {
  const std::int64_t step = std::int64_t{1} << level.level;
  bool fits = level.spacing == query::SpacingAt(request.target, level.level);
  for (std::size_t a = 0; a < 3; ++a) fits = fits && (grid.dims[a] == 1 || level.spacing[a] % step == 0);
  return fits;
}

/// The levels and layers of the answer; the server chooses the last level and layer if the question names
/// none.
/// @param levels  of the grid
std::vector<query::LevelChoice> ExpectedLevels(const query::ReadRequest& request, int levels,
                                               const query::AnswerHeader& header) {
  const int chosen = header.levels.empty() ? 0 : header.levels.back().level;
  const int finest = query::NamedLevel(request.target).value_or(chosen);
  const int first_layer = std::min(request.first_layer.value_or(header.layer), header.layer);
  std::vector<query::LevelChoice> expected;
  const int first = query::FirstLevelOn(levels, request.first_level, finest);
  for (int level = std::max(finest, first); level >= finest; --level)
    expected.push_back({level, first_layer});
  for (int layer = first_layer + 1; layer <= header.layer; ++layer) expected.push_back({finest, layer});
  return expected;
}

/// Checks field, type and step.
Status CheckSubject(const DatasetDescription& dataset, const query::SeriesRequest& request,
                    const query::AnswerHeader& header) {
  const std::vector<std::string>& fields = request.fields;
  const bool only = request.read.field.empty() && dataset.fields.size() == 1;
  const bool wanted = fields.empty() ? only || header.field == request.read.field
                                     : std::ranges::find(fields, header.field) != fields.end();
  const auto field = dataset.FindField(header.field);
  if (!wanted || !field || header.type != dataset.fields[*field].type)
    return InternalError("the server announces {} samples of the field \"{}\", which were not asked for",
                         Name(header.type), header.field);
  // A field that stands still is answered with the step that has it.
  const bool another = request.read.step && header.step != *request.read.step;
  if ((another && !dataset.fields[*field].still) || (request.steps && !request.steps->Contains(header.step)))
    return InternalError("the server announces step {}, which was not asked for", header.step);
  return Status::Ok();
}

Status CheckLevels(const DatasetDescription& dataset, const query::ReadRequest& request,
                   const query::AnswerHeader& header) {
  const int layers = dataset.fields[*dataset.FindField(header.field)].layers();
  const bool chosen = std::holds_alternative<query::WithinError>(request.target) ||
                      std::holds_alternative<query::WithinBytes>(request.target);
  const bool expected = header.layer == request.layer.value_or(layers - 1);
  if (header.layer >= layers || (!expected && !(chosen && !request.layer)))
    return InternalError("the server announces layer {} of {}, which was not asked for", header.layer,
                         layers);
  const GridDescription& grid = dataset.GridOf(*dataset.FindField(header.field));
  const std::vector<query::LevelChoice> expected_levels = ExpectedLevels(request, grid.levels, header);
  if (header.levels.size() != expected_levels.size())
    return InternalError("the server announces {} levels and layers instead of {}", header.levels.size(),
                         expected_levels.size());
  const Box box = Intersect(query::BoxOn(grid.domain(), request.box), grid.domain());
  auto due = expected_levels.begin();
  for (const query::LevelExtent& level : header.levels) {
    const bool known = query::LevelChoice{level.level, level.layer} == *due++ && level.level < grid.levels;
    if (!known || !SpacingFits(grid, request, level) || level.extent != SpacedBox(box, level.spacing)) {
      return InternalError("the server announces {} of level {} in layer {}, which was not asked for",
                           ToString(level.extent), level.level, level.layer);
    }
  }
  for (const Box& part : header.left_out) {
    if (!request.values || !box.Contains(part))
      return InternalError("the server leaves out {}, which was asked for", ToString(part));
  }
  return Status::Ok();
}

/// Reads a block of samples to its place: rows, or planes as far as they are dense there. False if the
/// message has fewer bytes.
bool ReadBlock(MessageData* data, const Index3& shape, std::size_t sample_size, const SamplePlace& place) {
  const std::size_t row = static_cast<std::size_t>(shape[0]) * sample_size;
  const std::int64_t rows = row == place.row_bytes ? shape[1] : 1;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; y += rows) {
      const std::size_t run = static_cast<std::size_t>(rows) * row;
      if (const std::byte* piece = data->Next(run)) {
        place.WriteRow(y, z, piece, run);
      } else if (!data->Read(place.Row(y, z), run)) {
        return false;
      }
    }
  }
  place.EndWriting();
  return true;
}

/// Fails if a message has more bytes than it describes.
Status CheckTaken(const MessageData& data) {
  if (data.size() == 0) return Status::Ok();
  return InternalError("a message of the server has {} bytes too many", data.size());
}

}  // namespace

Result<query::AnswerHeader> ParseHeader(const DatasetDescription& dataset,
                                        const query::SeriesRequest& request, const pb::ReadHeader& message) {
  QUARRY_ASSIGN_OR_RETURN(query::AnswerHeader header, wire::FromProto(message));
  if (header.field.empty()) header.field = request.read.field;  // an older server
  QUARRY_RETURN_IF_ERROR(CheckSubject(dataset, request, header));
  QUARRY_RETURN_IF_ERROR(CheckLevels(dataset, request.read, header));
  return header;
}

Status AnswerReceiver::Take(const grpc::ByteBuffer& message) {
  QUARRY_RETURN_IF_ERROR(ParseAnswer(message, this));
  if (!assembler_) return InternalError("the server's answer does not begin with a header");
  return Status::Ok();
}

/// No server adds more error than it was allowed to.
Status AnswerReceiver::CheckCoding(const pb::ReadHeader& header) const {
  const auto* const within = std::get_if<query::WithinError>(&request_.read.target);
  double most = recode_.error;
  if (within != nullptr) most = within->error;
  for (const pb::LevelExtent& level : header.levels()) {
    // The stored error, which a factor multiplies, is not the server's to tell.
    if (recode_.factor > 1) most = (recode_.factor - 1) * level.max_error();
    if (level.coding_error() >= 0 && level.coding_error() <= most) continue;
    return InternalError("the server codes level {} within {} instead of {}", level.level(),
                         level.coding_error(), most);
  }
  return Status::Ok();
}

/// The dataset of an answer, or as much of it as the answer needs.
Result<SharedDescription> AnswerReceiver::DatasetOf(const pb::ReadHeader& header) {
  if (known_.opened) return known_.opened;
  if (!header.has_described()) {
    QUARRY_ASSIGN_OR_RETURN(known_.opened, known_.fetch());
    return known_.opened;
  }
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription described, wire::DescribedField(header.described()));
  return SharedDescription(std::make_shared<const DatasetDescription>(std::move(described)));
}

Status AnswerReceiver::Header(const pb::ReadHeader& message) {
  QUARRY_ASSIGN_OR_RETURN(SharedDescription dataset, DatasetOf(message));
  QUARRY_ASSIGN_OR_RETURN(query::AnswerHeader header, ParseHeader(*dataset, request_, message));
  QUARRY_RETURN_IF_ERROR(CheckCoding(message));
  std::string described = message.described().SerializeAsString();
  if (begun_ && header.number == header_.number) {
    const auto same = [](const query::LevelExtent& a, const query::LevelExtent& b) {
      return a.level == b.level && a.layer == b.layer && a.extent == b.extent && a.spacing == b.spacing;
    };
    // One of two servers may be an older one.
    const bool same_field = described.empty() || described_.empty() || described == described_;
    const bool goes_on = header.field == header_.field && header.type == header_.type &&
                         header.step == header_.step && header.layer == header_.layer &&
                         header.left_out == header_.left_out && same_field &&
                         std::ranges::equal(header.levels, header_.levels, same);
    return goes_on ? Status::Ok() : InternalError("the server goes on with another answer");
  }
  if (begun_) QUARRY_RETURN_IF_ERROR(assembler_->CheckComplete());
  if (header.number != (begun_ ? header_.number + 1 : 0) || header.number >= header.count ||
      header.count > query::kMaxAnswers)
    return InternalError("the server sends answer {} of {} out of order", header.number, header.count);
  dataset_ = std::move(dataset);
  described_ = std::move(described);
  // The description of the field lives as long as that of its dataset.
  std::shared_ptr<const FieldDescription> field(dataset_,
                                                &dataset_->fields[*dataset_->FindField(header.field)]);
  header_ = header;
  decoder_.reset();
  tiles_.reset();
  bytes_received_ = 0;
  assembler_.emplace(std::move(header), std::move(field), on_level_, buffer_);
  return Status::Ok();
}

/// The level that a block shows instead of a damaged one.
Result<std::optional<query::LevelChoice>> AnswerReceiver::Shown(const pb::BlockExtent& block,
                                                                std::uint32_t level) const {
  std::optional<query::LevelChoice> shown;
  if (!block.has_shown_level() && !block.has_shown_layer()) return shown;
  const auto layer = static_cast<std::uint32_t>(assembler_->layer());
  const std::uint32_t shown_level = block.has_shown_level() ? block.shown_level() : level;
  const std::uint32_t shown_layer = block.has_shown_layer() ? block.shown_layer() : layer;
  const bool rougher = shown_level > level || (shown_level == level && shown_layer < layer);
  if (!request_.read.allow_damage || !rougher || shown_layer > layer ||
      shown_level >= static_cast<std::uint32_t>(dataset_->GridOf(*dataset_->FindField(header_.field)).levels))
    return InternalError("the server shows layer {} of level {} for layer {} of level {}", shown_layer,
                         shown_level, layer, level);
  shown = {static_cast<int>(shown_level), static_cast<int>(shown_layer)};
  return shown;
}

Status AnswerReceiver::Samples(const pb::SampleBlocks& part, MessageData* data) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  bytes_received_ += data->size();
  for (const pb::BlockExtent& block : part.blocks()) {
    QUARRY_ASSIGN_OR_RETURN(const Box extent, wire::GetExtent(block));
    QUARRY_ASSIGN_OR_RETURN(const std::optional<query::LevelChoice> shown, Shown(block, part.level()));
    QUARRY_ASSIGN_OR_RETURN(const SamplePlace place,
                            assembler_->AddBlock(static_cast<int>(part.level()), extent, shown));
    if (!ReadBlock(data, extent.shape(), SizeOf(header_.type), place))
      return InternalError("a block {} of level {} came with too few bytes", ToString(extent), part.level());
  }
  return CheckTaken(*data);
}

Status AnswerReceiver::Patches(const pb::PatchPayloads& part, MessageData* data) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  bytes_received_ += data->size();
  if (!decoder_) {
    QUARRY_ASSIGN_OR_RETURN(decoder_, PayloadDecoder::Make(*dataset_, request_.read, header_, pool_));
  }
  QUARRY_RETURN_IF_ERROR(decoder_->Add(part, data, &*assembler_));
  return CheckTaken(*data);
}

Status AnswerReceiver::Coded(const pb::CodedTiles& part, MessageData* data) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  bytes_received_ += data->size();
  if (!tiles_) tiles_.emplace(header_.type, pool_);
  const int level = static_cast<int>(part.level());
  for (const pb::CodedTile& tile : part.tiles()) {
    QUARRY_RETURN_IF_ERROR(tiles_->Add(level, tile, data, &*assembler_));
    QUARRY_ASSIGN_OR_RETURN(const Box whole, wire::GetExtent(tile));
    if (tile.damaged_size() > whole.volume())
      return InternalError("a tile {} of level {} has {} damaged boxes", ToString(whole), part.level(),
                           tile.damaged_size());
    for (const pb::BlockExtent& damaged : tile.damaged()) {
      QUARRY_ASSIGN_OR_RETURN(const Box extent, wire::GetExtent(damaged));
      QUARRY_ASSIGN_OR_RETURN(const std::optional<query::LevelChoice> shown, Shown(damaged, part.level()));
      if (!shown || extent.empty() || !whole.Contains(extent))
        return InternalError("a tile {} of level {} has the damaged box {}", ToString(whole), part.level(),
                             ToString(extent));
      assembler_->ShowDamage(extent, *shown);
    }
  }
  return CheckTaken(*data);
}

Status AnswerReceiver::LevelEnd(const pb::LevelEnd& end) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  if (tiles_) QUARRY_RETURN_IF_ERROR(tiles_->Wait());
  if (decoder_) QUARRY_RETURN_IF_ERROR(decoder_->EndLevel());
  return assembler_->EndLevel(static_cast<int>(end.level()), {header_.cost, bytes_received_, header_.choice});
}

Status AnswerReceiver::ReadEnd() {
  if (!assembler_) return Status::Ok();
  ended_ = true;
  return CheckComplete();
}

Status AnswerReceiver::CheckComplete() const {
  QUARRY_RETURN_IF_ERROR(assembler_->CheckComplete());
  if (header_.number + 1 == header_.count) return Status::Ok();
  return InternalError("the server ended after {} of {} answers", header_.number + 1, header_.count);
}

}  // namespace quarry::client::internal
