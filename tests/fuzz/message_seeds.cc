// Seeds of requests and answers, for the dataset of answer_input.h.

#include <fmt/format.h>

#include <cmath>

#include "quarry/base/checksum.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/tile.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/proto_convert.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"
#include "tests/fuzz/answer_input.h"
#include "tests/fuzz/seeds.h"

namespace quarry::fuzz {
namespace {

namespace pb = ::quarry::v1;

template <typename Message>
void AddMessage(Corpus* corpus, const std::string& name, char kind, const Message& message) {
  corpus->Add(name, std::string(1, kind) + message.SerializeAsString());
}

query::Bounded Bounded(double value) { return {value, value - 0.5, value + 0.5}; }

query::StatisticsAnswer ExampleStatistics(const query::AnswerHeader& header) {
  query::StatisticsAnswer answer;
  answer.header = header;
  query::Statistics& statistics = answer.statistics;
  statistics.valid = 100;
  statistics.missing = 20;
  statistics.min = Bounded(-1);
  statistics.max = Bounded(3);
  statistics.mean = Bounded(1);
  statistics.stddev = Bounded(0.5);
  statistics.box_min = {-1.5, -0.5};
  statistics.box_max = {2.5, 3.5};
  statistics.percentiles = {{5, Bounded(-0.5)}, {50, Bounded(1)}};
  statistics.percentiles[0].at.resolved = false;
  statistics.histogram = {-1, 3, {40, 60}, {30, 50}, {50, 70}, 1, 2, {-1, 2, 3}};
  return answer;
}

/// The header of the answer to a question about levels.
query::AnswerHeader MakeHeader(const DatasetDescription& dataset, const query::ReadRequest& request,
                               const std::string& field, std::uint64_t number, std::uint64_t count) {
  const Box grid{{0, 0, 0}, dataset.grids[0].dims};
  query::AnswerHeader header;
  header.field = field;
  header.type = dataset.fields[*dataset.FindField(field)].type;
  header.step = request.step.value_or(0);
  header.number = number;
  header.count = count;
  header.layer = dataset.fields[*dataset.FindField(field)].layers() - 1;
  const int first_layer = request.first_layer.value_or(header.layer);
  const auto add = [&](int level, int layer) {
    query::LevelExtent extent;
    extent.level = level;
    extent.layer = layer;
    extent.spacing = query::SpacingAt(request.target, level);
    extent.extent = SpacedBox(request.box.value_or(grid), extent.spacing);
    extent.max_error = 0.25;
    header.levels.push_back(extent);
  };
  for (int level = request.first_level.value_or(0); level >= 0; --level) add(level, first_layer);
  for (int layer = first_layer + 1; layer <= header.layer; ++layer) add(0, layer);
  header.cost = {6, 1000, 1200, 3, 5000};
  return header;
}

/// Messages of an answer, in the form of an input.
class Answer {
 public:
  explicit Answer(unsigned choice) : choice_(choice) {}

  void Add(pb::ReadResponse message) {
    message.set_position("position");
    messages_.push_back(std::move(message));
  }
  void AddHeader(const query::AnswerHeader& header) {
    pb::ReadResponse message;
    *message.mutable_header() = wire::ToProto(header);
    const DatasetDescription dataset = AnswerDataset();
    const FieldDescription& field = dataset.fields[*dataset.FindField(header.field)];
    *message.mutable_header()->mutable_described() = wire::DescribeField(dataset, field);
    Add(message);
  }
  void AddLevelEnd(int level) {
    pb::LevelEnd* end = messages_.back().mutable_level_end();
    end->set_level(static_cast<std::uint32_t>(level));
    end->set_coverage(1);
  }
  void AddEnd() { messages_.back().mutable_read_end(); }

  std::string bytes() const {
    std::string bytes(1, static_cast<char>(choice_));
    for (const pb::ReadResponse& message : messages_) {
      const std::string text = message.SerializeAsString();
      bytes += static_cast<char>(text.size() & 0xff);
      bytes += static_cast<char>(text.size() >> 8);
      bytes += text;
    }
    return bytes;
  }

 private:
  const unsigned choice_;
  std::vector<pb::ReadResponse> messages_;
};

/// Blocks of a level: two halves along z.
void AddSamples(const query::LevelExtent& level, DataType type, Answer* answer) {
  pb::ReadResponse message;
  pb::SampleBlocks* part = message.mutable_samples();
  part->set_level(static_cast<std::uint32_t>(level.level));
  Box low = level.extent;
  Box high = level.extent;
  low.end[2] = high.begin[2] = level.extent.begin[2] + (level.extent.shape()[2] + 1) / 2;
  for (const Box& block : {low, high}) {
    if (block.empty()) continue;
    wire::SetExtent(block, part->add_blocks());
    part->mutable_data()->append(static_cast<std::size_t>(block.volume()) * SizeOf(type), '\1');
  }
  answer->Add(message);
}

/// The only tile of a level, some samples missing.
/// @param error  that coding adds
bool AddTile(const query::LevelExtent& level, const FieldDescription& field, double error, Answer* answer) {
  pb::ReadResponse message;
  pb::CodedTiles* part = message.mutable_coded();
  part->set_level(static_cast<std::uint32_t>(level.level));
  const TileLayout layout{field.type, level.extent.shape()};
  Bytes samples(static_cast<std::size_t>(Volume(layout.shape)) * SizeOf(layout.type));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::byte>(i % 7 == 0 ? 0xff : 1);
  const Result<Bytes> coded = EncodeTile(layout, samples, {field.coder, error, field.fill_bits()});
  if (!coded.ok()) return false;
  pb::CodedTile* tile = part->add_tiles();
  wire::SetExtent(level.extent, tile);
  tile->set_size(static_cast<std::uint32_t>(coded->size()));
  part->mutable_data()->append(reinterpret_cast<const char*>(coded->data()), coded->size());
  answer->Add(message);
  return true;
}

/// Payload of some levels of every patch, in one layer; masks come with the first.
/// @param payloads  by patch
void AddPatches(const PatchGrid& grid, const std::vector<EncodedPatch>& payloads, int level, int coarsest,
                int layer, Answer* answer) {
  pb::ReadResponse message;
  pb::PatchPayloads* part = message.mutable_patches();
  part->set_level(static_cast<std::uint32_t>(level));
  for (std::int64_t patch = 0; patch < grid.patch_count(); ++patch) {
    const EncodedPatch& encoded = payloads[static_cast<std::size_t>(patch)];
    pb::PatchPayload* described = part->add_patches();
    described->set_patch(static_cast<std::uint64_t>(patch));
    for (int l = coarsest; l >= level; --l) {
      const auto number = static_cast<std::size_t>(l);
      pb::LevelPayload* sizes = described->add_levels();
      const bool masked = !encoded.mask_levels.empty() && layer == 0;
      const Bytes mask = masked ? encoded.mask_levels[number] : Bytes();
      const Bytes& payload = encoded.levels[encoded.parts.Of(layer, l)];
      for (const Bytes& bytes : {mask, payload})
        part->mutable_data()->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      sizes->set_size(payload.size());
      sizes->set_checksum(Checksum(payload));
      if (!masked) continue;
      sizes->set_mask_size(mask.size());
      sizes->set_mask_checksum(Checksum(mask));
    }
  }
  answer->Add(message);
}

/// Every patch of a field of float32, some samples missing.
bool EncodeAll(const DatasetDescription& dataset, const PatchGrid& grid, const FieldDescription& field,
               std::vector<EncodedPatch>* payloads) {
  const PatchCoder& coder = *FindCoder(field.coder);
  std::vector<double> tolerances = field.rougher;
  tolerances.push_back(ToleranceOf(field.bound));
  for (std::int64_t patch = 0; patch < grid.patch_count(); ++patch) {
    const PatchLayout layout{DataType::kFloat32, grid.PatchBox(patch).shape(), dataset.grids[0].levels};
    std::vector<float> samples(static_cast<std::size_t>(Volume(layout.shape)));
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = std::sin(0.1f * static_cast<float>(i));
    if (patch % 2 == 1) samples[3] = std::nanf("");
    Result<EncodedPatch> encoded =
        EncodePatch(coder, layout, std::as_bytes(std::span(samples)), std::nullopt, Tolerances(tolerances));
    if (!encoded.ok()) return false;
    payloads->push_back(*std::move(encoded));
  }
  return true;
}

bool AddAnswers(const std::string& folder) {
  Corpus corpus(folder, "answer");
  const DatasetDescription dataset = AnswerDataset();
  const PatchGrid grid = *PatchesOf(dataset.grids[0]);
  std::vector<EncodedPatch> of_p;
  std::vector<EncodedPatch> of_r;
  if (!EncodeAll(dataset, grid, dataset.fields[0], &of_p)) return false;
  if (!EncodeAll(dataset, grid, dataset.fields[2], &of_r)) return false;
  for (const unsigned choice : {0u, 1u, 2u, 4u, 6u, 8u, 16u, 128u, 131u, 144u, 148u}) {
    const query::ReadRequest request = AnswerRequest(choice).read;
    const query::AnswerHeader header = MakeHeader(dataset, request, request.field, 0, 1);
    Answer samples(choice);
    samples.AddHeader(header);
    for (const query::LevelExtent& level : header.levels) {
      AddSamples(level, header.type, &samples);
      samples.AddLevelEnd(level.level);
    }
    samples.AddEnd();
    corpus.Add(fmt::format("samples_{}", choice), samples.bytes());
    Answer coded(choice);
    coded.AddHeader(header);
    for (const query::LevelExtent& level : header.levels) {
      const FieldDescription& field = dataset.fields[*dataset.FindField(header.field)];
      if (!AddTile(level, field, (choice & 16) != 0 ? 0.125 : 0, &coded)) return false;
      coded.AddLevelEnd(level.level);
    }
    coded.AddEnd();
    corpus.Add(fmt::format("coded_{}", choice), coded.bytes());
  }
  for (const unsigned choice : {0u, 4u, 8u, 144u, 148u, 152u}) {
    const query::ReadRequest request = AnswerRequest(choice).read;
    const query::AnswerHeader header = MakeHeader(dataset, request, request.field, 0, 1);
    const std::vector<EncodedPatch>& payloads = request.field == "r" ? of_r : of_p;
    Answer patches(choice);
    patches.AddHeader(header);
    int coarsest = dataset.grids[0].levels - 1;
    for (const query::LevelExtent& level : header.levels) {
      if (request.first_layer && level.layer > *request.first_layer) coarsest = dataset.grids[0].levels - 1;
      AddPatches(grid, payloads, level.level, coarsest, request.first_layer ? level.layer : 0, &patches);
      patches.AddLevelEnd(level.level);
      coarsest = level.level - 1;
    }
    patches.AddEnd();
    corpus.Add(fmt::format("patches_{}", choice), patches.bytes());
  }
  Answer several(64);
  for (std::uint64_t number = 0; number < 2; ++number) {
    const query::AnswerHeader header =
        MakeHeader(dataset, AnswerRequest(64).read, dataset.fields[number].name, number, 2);
    several.AddHeader(header);
    AddSamples(header.levels[0], header.type, &several);
    several.AddLevelEnd(0);
  }
  several.AddEnd();
  corpus.Add("samples_64", several.bytes());
  return corpus.ok();
}

/// Questions to the golden dataset. The first byte is the method, as in service_target.cc.
bool AddQuestions(const std::string& folder) {
  Corpus corpus(folder, "service");
  pb::ListDatasetsRequest list;
  list.set_page_size(1);
  AddMessage(&corpus, "list", 0, list);
  pb::GetDatasetRequest dataset;
  dataset.set_dataset("golden");
  dataset.set_page_token("0");
  AddMessage(&corpus, "dataset", 1, dataset);
  query::SeriesRequest request;
  request.read.field = "smooth";
  request.read.step = 1;
  request.read.target = query::AtLevel{1};
  request.read.first_level = 2;
  request.read.box = Box{{3, 2, 1}, {20, 9, 4}};
  pb::PlanReadRequest plan;
  *plan.mutable_query() = wire::ToProto("golden", request);
  AddMessage(&corpus, "plan", 2, plan);
  pb::ReadRequest read;
  *read.mutable_query() = plan.query();
  AddMessage(&corpus, "read", 3, read);
  read.set_encoding(pb::ENCODING_CODED);
  read.set_recode_factor(2);
  AddMessage(&corpus, "coded", 3, read);
  read.clear_recode_factor();
  read.set_encoding(pb::ENCODING_PATCHES);
  read.mutable_query()->add_fields("holes");
  read.mutable_query()->add_fields("smooth");
  read.mutable_query()->mutable_steps()->set_begin(0);
  AddMessage(&corpus, "series", 3, read);
  *read.mutable_path() = wire::ToProto(query::Path{0.04, 1e7, 2});
  AddMessage(&corpus, "chosen", 3, read);
  query::StatisticsRequest statistics{request.read, {5, 50, 95}, 16, std::pair(-1.0, 3.0)};
  AddMessage(&corpus, "statistics", 4, wire::ToProto("golden", statistics));
  AddMessage(&corpus, "points", 5,
             wire::ToProto("golden", query::PointsRequest{"holes", 1, {{1, 2, 3}, {4.5, 5, 1.25}}, false}));
  pb::WatchStepsRequest watch;
  watch.set_dataset("golden");
  watch.set_after(0);
  AddMessage(&corpus, "watch", 6, watch);
  return corpus.ok();
}

}  // namespace

bool AddMessages(const std::string& folder) {
  Corpus corpus(folder, "wire");
  for (unsigned choice = 0; choice < 256; choice = 2 * choice + 1) {
    const query::SeriesRequest request = AnswerRequest(choice);
    AddMessage(&corpus, fmt::format("query_{}", choice), 0, wire::ToProto("run", request));
    query::StatisticsRequest statistics{request.read, {5, 50, 95}, 16, std::pair(-1.0, 3.0)};
    statistics.scale = static_cast<query::HistogramScale>(choice % 3);
    AddMessage(&corpus, fmt::format("statistics_request_{}", choice), 1, wire::ToProto("run", statistics));
  }
  AddMessage(&corpus, "points_request", 2,
             wire::ToProto("run", query::PointsRequest{"p", 3, {{1, 2, 3}, {4, 5, 6}}, true}));
  const DatasetDescription dataset = AnswerDataset();
  query::AnswerHeader header = MakeHeader(dataset, AnswerRequest(4).read, "p", 0, 1);
  header.left_out = {{{0, 0, 0}, {8, 8, 6}}};
  AddMessage(&corpus, "header", 3, wire::ToProto(header));
  AddMessage(&corpus, "statistics", 4, wire::ToProto(ExampleStatistics(header)));
  AddMessage(&corpus, "points", 5, wire::ToProto(query::PointsAnswer{7, 0.5, header.cost, {1, 2.5, 3}}));
  AddMessage(&corpus, "dataset", 6, format::ToProto(dataset));
  StepDescription step;
  step.step = 12;
  step.time = 0.125;
  FieldStepDescription field;
  field.name = "pressure";
  field.levels = {{0.1, 0.2, 3}, {0.4, 0.5, 6}, {0.7, 0.8, 9}};
  field.subfiles = {{"0000.qsf", 100, 12, {{0, 0, 0}, {91, 45, 7}}, 0x0123456789abcdef}};
  field.valid = 91 * 45 * 7;
  step.fields = {field};
  AddMessage(&corpus, "step", 7, format::ToProto(step));
  return corpus.ok() && AddAnswers(folder) && AddQuestions(folder);
}

}  // namespace quarry::fuzz
