// A step.json in sections: the same step as in one piece, of which a reader of one field reads little, and
// hostile ones.
#include "quarry/format/step_sections.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "quarry/base/checksum.h"
#include "quarry/format/proto_convert.h"

namespace quarry::format {
namespace {

constexpr SectionLimits kOnePiece{.whole = UINT64_MAX};

const DatasetDescription& ExampleDataset() {
  static const auto& dataset = *new const DatasetDescription([] {
    DatasetDescription made;
    made.fields = {{"known", DataType::kFloat32, "", CoderId::kLossless, Lossless{}}};
    return made;
  }());
  return dataset;
}

FieldStepDescription Field(const std::string& name, std::size_t subfiles = 1) {
  FieldStepDescription field;
  field.name = name;
  field.source = "a \"b\"\n  }\n ],\n.raw";
  field.min = -0.0;
  field.max_error = 0.1234567890123456789;
  field.psnr = std::numeric_limits<double>::infinity();
  field.levels = {{0.1, 0.2, 3, 1}, {0.4, -0.0, 6, 0.99}};
  for (std::size_t s = 0; s < subfiles; ++s)
    field.subfiles.push_back({SubfileName(s), 100, 12, {{0, 0, 0}, {91, 45, 7}}, 0x0123456789abcdef});
  field.valid = 1000;
  return field;
}

StepDescription Step(std::size_t fields) {
  StepDescription step;
  step.step = 12345678901;
  step.time = -0.0;
  for (std::size_t f = 0; f < fields; ++f) step.fields.push_back(Field(fmt::format("f{:04}", f)));
  return step;
}

Result<StepDescription> Decode(const std::string& text) { return DecodeStepManifest(text, ExampleDataset()); }

Result<StepRoot> RootOf(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t bytes, RootBytes(text));
  return DecodeRoot(std::string_view(text).substr(0, bytes), text.size(), ExampleDataset());
}

Result<std::vector<FieldStepDescription>> SectionOf(const std::string& text, const StepRoot& root,
                                                    std::size_t number) {
  const StepSection& section = root.sections[number];
  return DecodeSection(root, number, std::string_view(text).substr(section.offset, section.bytes),
                       ExampleDataset());
}

/// Everything that a manifest says.
std::string Said(const StepDescription& step) { return EncodeManifest(step, kOnePiece); }

/// Changes the root, and corrects its size and the checksums.
std::string Forged(std::string text, const std::string& from, const std::string& to) {
  const std::size_t before = *RootBytes(text);
  const std::size_t at = text.find(from);
  EXPECT_LT(at, before) << from;
  text.replace(at, from.size(), to);
  const std::size_t size = before + to.size() - from.size();
  const std::string key = "\"root_bytes\":\"";
  text.replace(text.find(key) + key.size(), 10, fmt::format("{:010}", size));
  const auto seal = [&](std::size_t digits, std::size_t end) {
    text.replace(digits, 16, 16, '0');
    const auto bytes = std::as_bytes(std::span(text)).first(end);
    text.replace(digits, 16, ChecksumText(Checksum(bytes)));
  };
  const std::string root = "\"root_checksum\":\"";
  const std::string own = "\"checksum\": \"";
  seal(text.find(root) + root.size(), size);
  seal(text.rfind(own) + own.size(), text.size());
  return text;
}

TEST(StepSections, StepsOfUpTo64KiBAreInOnePiece) {
  std::size_t largest = 0;
  for (std::size_t fields = 0; fields < 120; ++fields) {
    const std::string whole = EncodeManifest(Step(fields), kOnePiece);
    const std::string text = EncodeManifest(Step(fields));
    EXPECT_EQ(IsInSections(text), whole.size() > 65536) << fields;
    if (!IsInSections(text)) {
      EXPECT_EQ(text, whole);
    }
    largest = std::max(largest, whole.size());
  }
  EXPECT_GT(largest, 65536u);
}

TEST(StepSections, SayWhatOnePieceSays) {
  for (const std::size_t fields : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{100}}) {
    for (const std::uint64_t size : {1, 3000, 1 << 20}) {
      const StepDescription step = Step(fields);
      const std::string text = EncodeManifest(step, {.whole = 0, .section = size});
      ASSERT_TRUE(IsInSections(text));
      const Result<StepDescription> read = Decode(text);
      ASSERT_TRUE(read.ok()) << read.status().message() << ", " << fields << " fields, " << size << " bytes";
      EXPECT_EQ(Said(*read), Said(step));
      EXPECT_TRUE(std::signbit(*read->time));

      const StepRoot root = *RootOf(text);
      EXPECT_EQ(root.step, step.step);
      std::size_t field = 0;
      for (std::size_t s = 0; s < root.sections.size(); ++s) {
        const auto section = SectionOf(text, root, s);
        ASSERT_TRUE(section.ok()) << section.status().message();
        if (section->size() > 1) {
          EXPECT_LE(root.sections[s].bytes, size);
        }
        for (const FieldStepDescription& one : *section) {
          EXPECT_EQ(one.name, step.fields[field++].name);
          EXPECT_EQ(root.SectionsWith(one.name), std::vector<std::size_t>{s});
        }
      }
      EXPECT_EQ(field, fields);
      EXPECT_TRUE(root.SectionsWith("another").empty());
    }
  }
}

/// The JSON form of the message without what a program from before does not know.
TEST(StepSections, AreAStepForProgramsThatDoNotKnowThem) {
  const StepDescription step = Step(50);
  const std::string text = EncodeManifest(step, {.whole = 0, .section = 5000});
  const std::string one_piece = EncodeManifest(step, kOnePiece);
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  ::quarry::v1::StepManifest read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &read, options).ok());
  ::quarry::v1::StepManifest expected;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(one_piece, &expected, options).ok());

  const std::string own = read.checksum();
  EXPECT_EQ(StoredChecksum(text), *ParseChecksum(own));
  std::string zeros = text;
  zeros.replace(zeros.rfind(own), 16, 16, '0');
  EXPECT_EQ(own, ChecksumText(Checksum(std::as_bytes(std::span(zeros)))));
  read.clear_sections();
  read.clear_checksum();
  expected.clear_checksum();
  EXPECT_EQ(read.SerializeAsString(), expected.SerializeAsString());
  const std::string list = one_piece.substr(one_piece.find("\"fields\": ["));
  const std::string fields = list.substr(0, list.rfind("\"checksum\""));
  EXPECT_NE(text.find(fields), std::string::npos) << "the same bytes of fields";
}

TEST(StepSections, OneFieldOfFourThousandCosts80KB) {
  StepDescription step = Step(4096);
  for (FieldStepDescription& field : step.fields) field.levels.resize(7);
  const std::string text = EncodeManifest(step);
  const StepRoot root = *RootOf(text);
  std::uint64_t largest = 0;
  for (const StepSection& section : root.sections) largest = std::max(largest, section.bytes);

  EXPECT_GT(text.size(), 5'000'000u);
  EXPECT_LE(largest, 24u << 10);
  EXPECT_LE(*RootBytes(text) + largest, 80'000u);
  EXPECT_LE(*RootBytes(EncodeManifest(Step(1000))), kFrontBytes) << "is read at once";
}

TEST(StepSections, AFieldOfManySubfilesIsASectionOfItsOwn) {
  StepDescription step = Step(9);
  step.fields[4] = Field("large", 500);
  const std::string text = EncodeManifest(step);
  const StepRoot root = *RootOf(text);
  const std::vector<std::size_t> found = root.SectionsWith("large");

  ASSERT_EQ(found.size(), 1u);
  const StepSection& section = root.sections[found[0]];
  EXPECT_EQ(section.names.size(), 1u);
  EXPECT_GT(section.bytes, 100'000u);
  EXPECT_EQ(Said(*Decode(text)), Said(step));
}

TEST(StepSections, TwoNamesWithTheSameDigitsAreTwoFields) {
  std::map<std::uint32_t, std::string> seen;
  StepDescription step = Step(3);
  for (std::size_t i = 0; step.fields.size() == 3; ++i) {
    const std::string name = fmt::format("g{}", i);
    const auto [known, added] = seen.emplace(NameDigest(name), name);
    if (added) continue;
    step.fields.push_back(Field(known->second));
    step.fields.push_back(Field(name));
  }
  const std::string text = EncodeManifest(step, {.whole = 0, .section = 1});

  for (const std::size_t field : {3, 4})
    EXPECT_EQ(RootOf(text)->SectionsWith(step.fields[field].name), (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(Said(*Decode(text)), Said(step));
}

TEST(StepSections, EveryFlippedByteIsFoundWhereItIs) {
  const std::string text = EncodeManifest(Step(6), {.whole = 0, .section = 1500});
  const StepRoot root = *RootOf(text);
  ASSERT_GE(root.sections.size(), 3u);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string bad = text;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const Result<StepDescription> whole = Decode(bad);
    ASSERT_EQ(whole.status().code(), StatusCode::kDataLoss) << at;
    const bool in_root = at < *RootBytes(text);
    EXPECT_EQ(RootOf(bad).ok(), !in_root) << at;
    for (std::size_t s = 0; s < root.sections.size() && !in_root; ++s) {
      const StepSection& section = root.sections[s];
      const bool here = at >= section.offset && at < section.offset + section.bytes;
      EXPECT_EQ(SectionOf(bad, root, s).ok(), !here) << at;
      if (!here) continue;
      EXPECT_TRUE(whole.status().message().starts_with(
          fmt::format("section {} of {} (bytes {}..", s, root.sections.size(), section.offset)))
          << whole.status().message();
    }
  }
}

TEST(StepSections, EveryTruncatedTextIsRefused) {
  const std::string text = EncodeManifest(Step(6), {.whole = 0, .section = 1500});
  for (std::size_t size = 0; size < text.size(); ++size)
    ASSERT_EQ(Decode(text.substr(0, size)).status().code(), StatusCode::kDataLoss) << size;
}

TEST(StepSections, WrongRootsAreRefused) {
  const std::string text = EncodeManifest(Step(4), {.whole = 0, .section = 1});
  const StepRoot root = *RootOf(text);
  const auto bytes = [&](std::size_t s) { return fmt::format("\"bytes\":\"{}\"", root.sections[s].bytes); };
  const std::string name = fmt::format("{:08x}", NameDigest("f0000"));
  ASSERT_TRUE(Decode(Forged(text, name, name)).ok()) << "forged with what was there";
  std::string many;
  for (int i = 0; i < 4097; ++i) many += name;
  const std::pair<std::string, std::string> changes[] = {
      {bytes(0), "\"bytes\":\"0\""},
      {bytes(0), "\"bytes\":\"1\""},
      {bytes(0), "\"bytes\":\"18446744073709551615\""},
      {bytes(0), "\"bytes\":\"9223372036854775807\""},
      {bytes(0), "\"bytes\":\"-1\""},
      {name, ""},
      {name, name.substr(1)},
      {name, "0000000g"},
      {name, name + name},
      {name, "00000000"},
      {name, many},
      {"\"list\":[", "\"list\":[{\"bytes\":\"1\",\"checksum\":\"0123456789abcdef\",\"names\":\"00000000\"},"},
      {"\"list\":", "\"lost\":"},
      {"\"checksum\":\"", "\"checksum\":\"g"},
      {"\"format_version\": 4", "\"format_version\": 5"},
      {"\"step\": \"12345678901\"", "\"step\": \"-1\""}};
  for (const auto& [from, to] : changes) {
    const std::string bad = Forged(text, from, to);
    EXPECT_EQ(Decode(bad).status().code(), StatusCode::kDataLoss) << from << " -> " << to.substr(0, 100);
    const Result<StepRoot> read = RootOf(bad);
    bool refused = !read.ok();
    for (std::size_t s = 0; read.ok() && s < read->sections.size(); ++s)
      refused = refused || !SectionOf(bad, *read, s).ok();
    EXPECT_TRUE(refused) << from << " -> " << to.substr(0, 100);
  }
}

TEST(StepSections, ARootOfAnySizeIsBoundedBeforeItIsRead) {
  std::string text = EncodeManifest(Step(4), {.whole = 0, .section = 1});
  for (const char* size : {"0001048577", "9999999999", "000000000x", "-000000001"}) {
    text.replace(text.find("root_bytes\":\"") + 13, 10, size);
    EXPECT_EQ(RootBytes(text).status().code(), StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(RootBytes(text.substr(0, 33)).status().code(), StatusCode::kDataLoss);
  text.replace(text.find("root_bytes\":\"") + 13, 10, "0000000040");
  EXPECT_EQ(Decode(text).status().code(), StatusCode::kDataLoss);
}

TEST(StepSections, AFieldTwiceIsRefused) {
  StepDescription step = Step(4);
  step.fields[3].name = "f0001";
  EXPECT_EQ(Decode(EncodeManifest(step, {.whole = 0, .section = 1})).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry::format
