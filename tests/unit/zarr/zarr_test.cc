#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/zarr/chunk_buffer.h"
#include "quarry/zarr/hierarchy.h"
#include "quarry/zarr/keys.h"

namespace quarry::zarr {
namespace {

namespace pb = ::quarry::v1;
using nlohmann::json;

DatasetDescription Description() {
  DatasetDescription dataset;
  dataset.grids[0].dims = {45, 34, 23};
  dataset.grids[0].patch = {16, 16, 16};
  dataset.grids[0].levels = 5;
  dataset.fields.push_back({.name = "p", .units = "Pa", .bound = AbsoluteBound{1e-3}});
  dataset.fields.push_back({.name = "k", .type = DataType::kInt16, .bound = Lossless{}, .fill = -999});
  return dataset;
}

pb::StepManifest StepOf(std::uint64_t number, std::vector<std::string> fields) {
  pb::StepManifest step;
  step.set_step(number);
  step.set_time(0.5 * static_cast<double>(number));
  for (const std::string& name : fields) {
    pb::FieldStep* field = step.add_fields();
    field->set_name(name);
    for (std::uint32_t level = 0; level < 5; ++level) {
      field->add_levels()->set_level(level);
      field->mutable_levels()->rbegin()->set_max_error(static_cast<double>(number) + level);
    }
  }
  return step;
}

std::unique_ptr<Hierarchy> MakeOf(const DatasetDescription& dataset, std::vector<pb::StepManifest> steps,
                                  View view = {}) {
  Contents contents = *Contents::Create(dataset, std::move(view));
  for (const pb::StepManifest& step : steps) contents.Add(step);
  return std::make_unique<Hierarchy>(std::move(contents));
}

std::unique_ptr<Hierarchy> Make(std::vector<pb::StepManifest> steps, const TimeUnit& unit = {}) {
  DatasetDescription dataset = Description();
  dataset.time_unit = unit;
  return MakeOf(dataset, std::move(steps));
}

json Document(const Hierarchy& hierarchy, const std::string& key) {
  const Entry entry = hierarchy.Find(key).value();
  EXPECT_TRUE(entry.is_document()) << key;
  return json::parse(*entry.value);
}

TEST(Hierarchy, SaysWhatTimesMean) {
  const auto times = [](const TimeUnit& unit) {
    return Document(*Make({StepOf(3, {"p"})}, unit), "0/time/zarr.json")["attributes"];
  };

  EXPECT_EQ(times({}), json({{"long_name", "physical time"}}));
  EXPECT_EQ(times({"days since 2001-01-01", "noleap"}), json({{"long_name", "physical time"},
                                                              {"standard_name", "time"},
                                                              {"units", "days since 2001-01-01"},
                                                              {"calendar", "noleap"}}));
}

/// "p" and "k" of Description change along "time"; "lat" is a coordinate of both that does not, and "crs" a
/// single value.
std::unique_ptr<Hierarchy> MakeStill() {
  DatasetDescription dataset = Description();
  dataset.attributes = {{"title", "A title"}, {"run", AttributeNumbers{DataType::kInt32, false, {7}}}};
  dataset.time_name = "time";
  dataset.time_attributes = {{"bounds", "time_bnds"}};
  dataset.fields[0].attributes = {{"standard_name", "air_pressure"}, {"level", "of the source"}};
  dataset.grids[0].axis_attributes[2] = {{"positive", "down"}};
  GridDescription map = dataset.grids[0];
  map.dims[2] = 1;
  map.patch[2] = 1;
  map.has_axis[2] = false;
  GridDescription single;
  single.patch = {1, 1, 1};
  single.has_axis = {false, false, false};
  dataset.grids.push_back(map);
  dataset.grids.push_back(single);
  dataset.fields.push_back(
      {.name = "lat", .bound = Lossless{}, .grid = 1, .still = true, .coordinate = true});
  dataset.fields.push_back(
      {.name = "crs", .type = DataType::kInt32, .bound = Lossless{}, .grid = 2, .still = true});
  return MakeOf(dataset, {StepOf(0, {"p", "k", "lat", "crs"}), StepOf(1, {"p", "k"})});
}

TEST(Hierarchy, PassesOnWhatTheSourceSays) {
  const auto hierarchy = MakeStill();
  EXPECT_EQ(Document(*hierarchy, "zarr.json")["attributes"]["title"], "A title");
  EXPECT_EQ(Document(*hierarchy, "1/zarr.json")["attributes"],
            json({{"title", "A title"}, {"run", 7}, {"level", 1}}));
  const json field = Document(*hierarchy, "1/p/zarr.json")["attributes"];
  EXPECT_EQ(field["standard_name"], "air_pressure");
  EXPECT_EQ(field["level"], 1) << "what is true of this array comes first";
  EXPECT_EQ(Document(*hierarchy, "0/z/zarr.json")["attributes"], json({{"positive", "down"}, {"axis", "Z"}}));
  EXPECT_EQ(Document(*hierarchy, "0/time/zarr.json")["attributes"], json({{"bounds", "time_bnds"}}));
}

TEST(Hierarchy, FieldsThatStandStillHaveNoSteps) {
  const auto hierarchy = MakeStill();
  EXPECT_EQ(Document(*hierarchy, "0/p/zarr.json")["dimension_names"], json({"time", "z", "y", "x"}));
  EXPECT_EQ(Document(*hierarchy, "0/p/zarr.json")["attributes"]["coordinates"], "lat");
  EXPECT_EQ(Document(*hierarchy, "0/lat/zarr.json")["dimension_names"], json({"y", "x"}));
  EXPECT_FALSE(Document(*hierarchy, "0/lat/zarr.json")["attributes"].contains("coordinates"));
  EXPECT_EQ(Document(*hierarchy, "3/crs/zarr.json")["shape"], json::array());
  EXPECT_FALSE(hierarchy->Find("0/step/zarr.json")) << "0 and 1 say nothing";
  EXPECT_FALSE(hierarchy->Find("0/time_lat/zarr.json"));

  const auto part = hierarchy->Find("0/lat/c/1/2");
  ASSERT_TRUE(part);
  const ChunkQuestion question = hierarchy->QuestionOf(part->chunk);
  EXPECT_EQ(question.step, 0U) << "the one that has it";
  EXPECT_EQ(question.box.begin, (Index3{32, 16, 0}));
  const auto value = hierarchy->Find("0/crs/c");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->size, 4U);
  EXPECT_FALSE(hierarchy->Find("0/crs/c/0"));
}

TEST(Hierarchy, HasNoPositionsThatNobodyHasSaid) {
  DatasetDescription dataset = Description();
  dataset.grids[0].unplaced = {true, false, true};
  GridDescription line = dataset.grids[0];
  line.dims = {45, 1, 1};
  line.patch = {16, 1, 1};
  line.has_axis = {true, false, false};
  line.unplaced = {false, false, false};
  line.axis_attributes[0] = {{"long_name", "of the line"}};
  dataset.grids.push_back(line);
  dataset.fields.push_back({.name = "q", .bound = Lossless{}, .grid = 1});
  const auto hierarchy = MakeOf(dataset, {StepOf(0, {"p", "k", "q"})});

  EXPECT_EQ(Document(*hierarchy, "1/p/zarr.json")["dimension_names"], json({"z", "y", "x"}));
  EXPECT_TRUE(hierarchy->Find("1/y/c/0"));
  for (const char* key : {"0/z/zarr.json", "0/z/c/0", "1/z/zarr.json"})
    EXPECT_FALSE(hierarchy->Find(key)) << key;
  EXPECT_EQ(Document(*hierarchy, "1/x/zarr.json")["attributes"],
            json({{"long_name", "of the line"}, {"axis", "X"}}))
      << "of the first grid that says them";
  const json image = Document(*hierarchy, "zarr.json")["attributes"]["ome"]["multiscales"][0];
  EXPECT_EQ(image["datasets"][1]["coordinateTransformations"][0]["scale"], json({2.0, 2.0, 2.0}));
}

/// "p" and "k" of Description, "few" along an axis "m" of 3 samples, at level 0 alone, and a coordinate "c".
/// Texts are "x", as the axis is called; "region" along y; "a b" along x; "run", which is one; and "member"
/// along m.
DatasetDescription WithTexts() {
  DatasetDescription dataset = Description();
  GridDescription few;
  few.dims = {3, 1, 1};
  few.patch = {4, 1, 1};
  few.has_axis = {true, false, false};
  few.axis_names = {"m", "", ""};
  dataset.grids.push_back(few);
  dataset.fields.push_back({.name = "few", .bound = Lossless{}, .grid = 1, .still = true});
  dataset.fields.push_back({.name = "c", .bound = Lossless{}, .still = true, .coordinate = true});
  const auto numbered = [](const char* letter, int count) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back(fmt::format("{}{}", letter, i));
    return texts;
  };
  dataset.texts.push_back({"x", 0, 0, numbered("x", 45), {{"long_name", "station"}}});
  dataset.texts.push_back({"region", 0, 1, numbered("r", 34), {}});
  dataset.texts.push_back({"a b", 0, 0, numbered("a", 45), {}});
  dataset.texts.push_back({"run", 1, {}, {"hist\u00e9"}, {}});
  dataset.texts.push_back({"member", 1, 0, {"one", "", "three"}, {}});
  return dataset;
}

TEST(Hierarchy, HasTexts) {
  const auto hierarchy = MakeOf(WithTexts(), {StepOf(0, {"p", "k", "few", "c"})});
  const auto bytes = [&](const char* key) {
    const Entry entry = hierarchy->Find(key).value();
    EXPECT_FALSE(entry.is_document());
    EXPECT_EQ(entry.size, entry.value->size());
    return *entry.value;
  };
  using namespace std::string_literals;

  const json stations = Document(*hierarchy, "4/x/zarr.json");
  EXPECT_EQ(stations["data_type"], "string");
  EXPECT_EQ(stations["codecs"], json::parse(R"([{"name": "vlen-utf8"}])"));
  EXPECT_EQ(stations["fill_value"], "");
  EXPECT_EQ(stations["shape"], json::array({3}));
  EXPECT_EQ(stations["chunk_grid"]["configuration"]["chunk_shape"], json::array({3}));
  EXPECT_EQ(stations["dimension_names"], json::array({"x"}));
  EXPECT_EQ(stations["attributes"], json({{"long_name", "station"}}));
  EXPECT_EQ(bytes("4/x/c/0"), "\3\0\0\0\2\0\0\0x0\3\0\0\0x16\3\0\0\0x32"s);
  EXPECT_EQ(bytes("0/member/c/0"), "\3\0\0\0\3\0\0\0one\0\0\0\0\5\0\0\0three"s);
  EXPECT_FALSE(hierarchy->Find("0/member/c/1"));
  EXPECT_EQ(Document(*hierarchy, "0/run/zarr.json")["shape"], json::array());
  for (const char* key : {"0/run/c", "4/run/c"})
    EXPECT_EQ(bytes(key), "\1\0\0\0\6\0\0\0hist\u00e9"s) << "one text is in all levels";
  EXPECT_FALSE(hierarchy->Find("0/run/c/0"));
  EXPECT_TRUE(hierarchy->Find("1/region/c/0"));
  EXPECT_FALSE(hierarchy->Find("1/member/zarr.json")) << "no grid of this level has its dimension";
}

TEST(Hierarchy, TextsAreCoordinatesOfTheFieldsThatHaveTheirDimension) {
  const auto hierarchy = MakeOf(WithTexts(), {StepOf(0, {"p", "k", "few", "c"})});
  const auto attributes = [&](const char* key) { return Document(*hierarchy, key)["attributes"]; };

  EXPECT_EQ(attributes("0/p/zarr.json")["coordinates"], "step time c region run");
  EXPECT_EQ(attributes("3/p/zarr.json")["coordinates"], "step time c region run");
  EXPECT_EQ(attributes("0/few/zarr.json")["coordinates"], "run member");
  EXPECT_FALSE(attributes("0/c/zarr.json").contains("coordinates"));
}

TEST(Hierarchy, TextsOfAnAxisWithAnotherNameAreItsCoordinate) {
  DatasetDescription dataset = WithTexts();
  dataset.grids[1].axis_names[0] = "a/b";  // which Zarr cannot have
  dataset.texts = {{"a/b", 1, 0, {"one", "two", "three"}, {}}};
  const auto hierarchy = MakeOf(dataset, {StepOf(0, {"p", "few"})});

  const std::string dimension = Document(*hierarchy, "0/few/zarr.json")["dimension_names"][0];
  EXPECT_EQ(Document(*hierarchy, "0/" + dimension + "/zarr.json")["data_type"], "string");
  EXPECT_FALSE(Document(*hierarchy, "0/few/zarr.json")["attributes"].contains("coordinates"));
}

TEST(Hierarchy, TextsCountInItsMemory) {
  DatasetDescription dataset = Description();
  const std::uint64_t without = Contents::Create(dataset)->bytes();
  dataset.texts.push_back({"y", 0, 1, std::vector<std::string>(34, std::string(1000, 'y')), {}});

  const std::uint64_t with = Contents::Create(dataset)->bytes();

  // 34 texts, and 34 + 17 + 9 + 5 + 3 in chunks.
  EXPECT_GE(with, without + 1000 * (34 + 68));
  EXPECT_LE(with, without + 1000 * (34 + 68) + 102 * 64 + 5 * 4096);
}

TEST(Hierarchy, HasADocumentForEachNode) {
  const auto hierarchy = Make({StepOf(3, {"p", "k"}), StepOf(5, {"p"})});

  const json array = Document(*hierarchy, "1/p/zarr.json");
  EXPECT_EQ(array["shape"], json({2, 12, 17, 23}));
  EXPECT_EQ(array["chunk_grid"]["configuration"]["chunk_shape"], json({1, 12, 17, 23}));
  EXPECT_EQ(array["dimension_names"], json({"step", "z", "y", "x"}));
  EXPECT_EQ(array["attributes"]["max_error"], 6.0) << "the largest of all steps";
  EXPECT_EQ(array["fill_value"], "NaN");
  const json integers = Document(*hierarchy, "0/k/zarr.json");
  EXPECT_EQ(integers["dimension_names"][0], "step_k");
  EXPECT_EQ(integers["fill_value"], -999);
  EXPECT_EQ(integers["attributes"]["_FillValue"], -999);
  EXPECT_EQ(Document(*hierarchy, "zarr.json")["consolidated_metadata"]["metadata"]["1/p"], array);
  EXPECT_EQ(Document(*hierarchy, "1/zarr.json")["consolidated_metadata"]["metadata"]["p"], array);
  for (const char* key : {"", "zarr.jso", "5/zarr.json", "0/q/zarr.json", "0/p", "zarr.json/", "0/p/c"})
    EXPECT_FALSE(hierarchy->Find(key)) << key;
}

TEST(Hierarchy, HasTheChunksThatItsArraysHave) {
  const auto hierarchy = Make({StepOf(3, {"p", "k"}), StepOf(5, {"p"})});
  EXPECT_TRUE(hierarchy->Find("0/p/c/1/1/2/2"));
  EXPECT_EQ(hierarchy->Find("0/p/c/1/1/2/2")->size, 4U * 16 * 16 * 16);
  EXPECT_EQ(hierarchy->Find("0/step/c/0")->size, 16U);
  for (const char* key : {"0/p/c/2/0/0/0", "0/p/c/0/2/0/0", "0/p/c/0/0/3/0", "0/p/c/0/0/0", "0/p/c/0/0/0/0/0",
                          "0/p/c/0/0/0/00", "0/p/c/0/0/0/-0", "0/p/c/0/0/0/", "0/p/d/0/0/0/0",
                          "0/k/c/1/0/0/0", "0/step/c/1", "0/p/c/18446744073709551616/0/0/0"})
    EXPECT_FALSE(hierarchy->Find(key)) << key;
}

TEST(Hierarchy, AsksForTheBoxOfAChunk) {
  const auto hierarchy = Make({StepOf(3, {"p"}), StepOf(5, {"p"})});

  const ChunkQuestion question = hierarchy->QuestionOf(hierarchy->Find("0/p/c/1/1/2/2")->chunk);

  EXPECT_EQ(question.field, "p");
  EXPECT_EQ(question.step, 5U);
  EXPECT_EQ(question.level, 0);
  EXPECT_EQ(question.layer, 0);
  // x: 32 to 45 of 45, y: 32 to 34 of 34, z: 16 to 23 of 23.
  EXPECT_EQ(question.box, (Box{{32, 32, 16}, {45, 34, 23}}));
}

TEST(Hierarchy, AStepAloneIsNoDimension) {
  const auto hierarchy = Make({StepOf(3, {"p"})});
  EXPECT_EQ(Document(*hierarchy, "1/p/zarr.json")["dimension_names"], json({"z", "y", "x"}));
  EXPECT_EQ(Document(*hierarchy, "1/p/zarr.json")["attributes"]["coordinates"], "step time");
  EXPECT_EQ(Document(*hierarchy, "0/step/zarr.json")["shape"], json::array());
  EXPECT_EQ(Document(*hierarchy, "zarr.json")["attributes"]["ome"]["multiscales"][0]["axes"].size(), 3U);
  EXPECT_EQ(hierarchy->QuestionOf(hierarchy->Find("0/p/c/1/2/2")->chunk).step, 3U);
  EXPECT_FALSE(hierarchy->Find("0/p/c/0/1/2/2"));
  EXPECT_FALSE(hierarchy->Find("0/k/c/0/0/0")) << "no step has it";
  EXPECT_FALSE(hierarchy->Find("0/step_k/zarr.json"));
  std::string step;
  hierarchy->AppendCoordinates(hierarchy->Find("0/step/c")->chunk, 0, 1, &step);
  EXPECT_EQ(step, std::string("\3\0\0\0\0\0\0\0", 8));
}

TEST(Hierarchy, ListsWhatIsBelowAPath) {
  const auto hierarchy = Make({StepOf(3, {"p", "k"}), StepOf(5, {"p"})});
  const auto list = [&](const char* path) {
    const Folder folder = hierarchy->List(path);
    return std::pair(folder.names, folder.chunks);
  };
  using Listed = std::pair<std::vector<std::string>, std::uint64_t>;
  EXPECT_EQ(list(""), (Listed{{"zarr.json"}, 5}));
  EXPECT_EQ(list("0").first.size(), 10U) << "p, k, x, y, z, step, time, step_k, time_k, and the document";
  EXPECT_EQ(list("0/p"), (Listed{{"zarr.json", "c"}, 0}));
  EXPECT_EQ(list("0/p/c"), (Listed{{}, 2}));
  EXPECT_EQ(list("0/p/c/1/1/2"), (Listed{{}, 3}));
  for (const char* path : {"5", "x", "0/q", "0/p/d", "0/p/c/2", "0/p/c/1/1/2/2", "0/p/c/01", "0/"})
    EXPECT_EQ(list(path), Listed()) << path;
}

/// Layers of 1e-2 and 1e-4, the last lossless.
std::unique_ptr<Hierarchy> MakeLayers(View view) {
  DatasetDescription dataset = Description();
  dataset.fields[0].bound = Lossless{};
  dataset.fields[0].rougher = {1e-2, 1e-4};
  pb::StepManifest step = StepOf(3, {"p", "k"});
  for (const double error : {0.5, 0.25}) {
    pb::LayerRecord* layer = step.mutable_fields(0)->add_rougher();
    for (std::uint32_t level = 0; level < 5; ++level) {
      layer->add_levels()->set_level(level);
      layer->mutable_levels()->rbegin()->set_max_error(error + level);
    }
  }
  return MakeOf(dataset, {step}, std::move(view));
}

TEST(View, ShowsALayer) {
  for (const auto& [layer, shown, error] :
       {std::tuple(std::optional(0), 0, 0.5), std::tuple(std::optional(1), 1, 0.25),
        std::tuple(std::optional(2), 2, 3.0), std::tuple(std::optional<int>(), 2, 3.0)}) {
    const auto hierarchy = MakeLayers({.layer = layer});
    const json attributes = Document(*hierarchy, "0/p/zarr.json")["attributes"];
    EXPECT_EQ(attributes["max_error"], error);
    EXPECT_EQ(attributes["layer"], shown);
    EXPECT_EQ(attributes.contains("lossless"), shown == 2);
    EXPECT_EQ(attributes.value("tolerance", 0.0), shown == 2 ? 0.0 : shown == 1 ? 1e-4 : 1e-2);
    EXPECT_EQ(hierarchy->QuestionOf(hierarchy->Find("0/p/c/0/0/0")->chunk).layer, shown);
    EXPECT_FALSE(Document(*hierarchy, "0/k/zarr.json")["attributes"].contains("layer"));
    EXPECT_EQ(Document(*hierarchy, "zarr.json")["attributes"]["quarry"]["layers"], 3);
  }
  DatasetDescription dataset = Description();
  dataset.fields[0].rougher = {1e-2};
  EXPECT_EQ(Contents::Create(dataset, {.layer = 2}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Contents::Create(dataset, {.fields = {"k"}, .layer = 1}).status().code(), StatusCode::kNotFound);
  const auto tag = [](View view) { return MakeLayers(std::move(view))->Find("0/p/c/0/0/0")->tag; };
  EXPECT_NE(tag({.layer = 0}), tag({.layer = 1})) << "their bytes differ";
}

TEST(View, ShowsFieldsInTheirOrder) {
  const auto hierarchy = MakeOf(Description(), {StepOf(3, {"p", "k"})}, {.fields = {"k", "p", "k"}});
  const json images = Document(*hierarchy, "zarr.json")["attributes"]["ome"]["multiscales"];
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0]["name"], "k");
  EXPECT_FALSE(MakeOf(Description(), {StepOf(3, {"p", "k"})}, {.fields = {"k"}})->Find("0/p/zarr.json"));
  EXPECT_EQ(Contents::Create(Description(), {.fields = {"q"}}).status().code(), StatusCode::kNotFound);
}

TEST(Hierarchy, HasOtherTagsWhereBytesAreOthers) {
  const auto one = Make({StepOf(3, {"p"}), StepOf(5, {"p"})});
  const auto again = Make({StepOf(3, {"p"}), StepOf(5, {"p"})});
  const auto longer = Make({StepOf(3, {"p"}), StepOf(5, {"p"}), StepOf(6, {"p"})});
  const auto earlier = Make({StepOf(1, {"p"}), StepOf(3, {"p"}), StepOf(5, {"p"})});
  pb::StepManifest replaced = StepOf(3, {"p"});
  replaced.mutable_fields(0)->set_psnr(7);
  const auto other = Make({replaced, StepOf(5, {"p"})});
  const auto tag = [](const auto& hierarchy, const char* key) { return hierarchy->Find(key)->tag; };
  const char* const chunk = "0/p/c/0/0/0/0";
  EXPECT_EQ(tag(one, chunk), tag(again, chunk));
  EXPECT_EQ(tag(one, chunk), tag(longer, chunk)) << "a published step never changes";
  EXPECT_NE(tag(one, chunk), tag(earlier, chunk)) << "its place is another step's now";
  EXPECT_NE(tag(one, chunk), tag(other, chunk));
  EXPECT_NE(tag(one, chunk), tag(one, "0/p/c/0/0/0/1"));
  EXPECT_NE(tag(one, chunk), tag(one, "0/p/c/1/0/0/0"));
  EXPECT_NE(tag(one, "0/step/c/0"), tag(longer, "0/step/c/0"));
  const auto stations = MakeOf(WithTexts(), {StepOf(3, {"p"})});
  DatasetDescription renamed = WithTexts();
  renamed.texts[0].texts[0] = "x9";
  EXPECT_NE(tag(stations, "0/x/c/0"), tag(MakeOf(renamed, {StepOf(3, {"p"})}), "0/x/c/0"));
  EXPECT_EQ(tag(one, "zarr.json"), tag(again, "zarr.json"));
  EXPECT_NE(tag(one, "zarr.json"), tag(longer, "zarr.json"));
}

TEST(PlacesOf, TakesTheShortestNameFirst) {
  const auto places = [](const char* path) {
    std::vector<std::pair<std::string, std::string>> found;
    const Result<std::vector<Place>> all = PlacesOf(path);
    for (const Place& place : *all) found.emplace_back(place.dataset, place.key);
    return found;
  };
  using Found = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(places("run/zarr.json"), (Found{{"run", "zarr.json"}}));
  EXPECT_EQ(places("wind/a/zarr.json"), (Found{{"wind/a", "zarr.json"}}));
  EXPECT_EQ(places("run/0/zarr.json"), (Found{{"run", "0/zarr.json"}, {"run/0", "zarr.json"}}));
  EXPECT_EQ(places("run/0/p/zarr.json"), (Found{{"run", "0/p/zarr.json"}, {"run/0/p", "zarr.json"}}));
  EXPECT_EQ(places("run.zarr/0/p/c/0/1/2/3"),
            (Found{{"run", "0/p/c/0/1/2/3"}, {"run.zarr", "0/p/c/0/1/2/3"}}));
  EXPECT_EQ(places("a/b/0/z/c/0"), (Found{{"a/b", "0/z/c/0"}}));
  EXPECT_EQ(places("run/0/crs/c"), (Found{{"run", "0/crs/c"}})) << "a single value";
  for (const char* path : {"", "/", "zarr.json", "/zarr.json", "run", "run/", "run/0", "run/x/c/0/0/0/0",
                           "run/0/p/c/0/0/0/x", "run/x/p/c", "0/p/c/0/0/0/0"})
    EXPECT_TRUE(places(path).empty()) << path;
}

TEST(PlacesOf, TakesAViewBetweenDatasetAndKey) {
  const auto place = [](const char* path) { return PlacesOf(path)->at(0); };
  EXPECT_EQ(place("a/run/layer=1/0/p/zarr.json").dataset, "a/run");
  EXPECT_EQ(place("a/run/layer=1/0/p/zarr.json").view, (View{.layer = 1}));
  EXPECT_EQ(place("run.zarr/float32=true/fields=p,T/zarr.json").view,
            (View{.fields = {"p", "T"}, .float32 = true}));
  EXPECT_EQ(place("run.zarr/layer=0/zarr.json").dataset, "run");
  EXPECT_EQ(place("run/fields=p.zarr/zarr.json").view, (View{.fields = {"p"}}))
      << "readers want .zarr at the end";
  EXPECT_EQ(place("run/other=1/zarr.json").dataset, "run/other=1");
  EXPECT_NE(place("run/layer=0/zarr.json").hierarchy, place("run/layer=1/zarr.json").hierarchy);
  EXPECT_EQ(place("run.zarr/layer=0/zarr.json").hierarchy, place("run/layer=0/zarr.json").hierarchy);
  for (const char* path :
       {"run/layer=/zarr.json", "run/layer=-1/zarr.json", "run/layer=99999999999/zarr.json",
        "run/float32=1/zarr.json", "run/fields=/zarr.json", "run/fields=a,,b/zarr.json"})
    EXPECT_EQ(PlacesOf(path).status().code(), StatusCode::kInvalidArgument) << path;
}

TEST(ChunkShape, IsWholePatchesOfUsefulSize) {
  DatasetDescription dataset = Description();
  dataset.grids[0].dims = {512, 512, 512};
  dataset.grids[0].patch = {64, 64, 64};
  EXPECT_EQ(ChunkShape(dataset.grids[0], 0), (Shape{64, 64, 64}));
  EXPECT_EQ(ChunkShape(dataset.grids[0], 1), (Shape{32, 32, 32}));
  EXPECT_EQ(ChunkShape(dataset.grids[0], 4), (Shape{32, 32, 32})) << "8 patches of 4 along each axis";
  dataset.grids[0].dims = {100, 1, 1};
  dataset.grids[0].patch = {16, 1, 1};
  EXPECT_EQ(ChunkShape(dataset.grids[0], 0), (Shape{1, 1, 16}));
  EXPECT_EQ(ChunkShape(dataset.grids[0], 3), (Shape{1, 1, 13}));
}

// ---- Chunks

class ChunkBufferTest : public ::testing::Test {
 protected:
  /// The chunk at the end of every axis: 7 x 2 x 13 of 16 x 16 x 16 samples.
  std::optional<Entry> entry_;
  std::unique_ptr<Hierarchy> hierarchy_;

  void Open(const char* key, bool missing = false, View view = {}) {
    DatasetDescription dataset = Description();
    dataset.fields.push_back({.name = "h", .bound = Lossless{}, .fill = 9.5, .given = GivenType::kFloat16});
    dataset.fields.push_back(
        {.name = "b", .type = DataType::kUint8, .bound = Lossless{}, .given = GivenType::kBool});
    dataset.fields.push_back({.name = "d", .type = DataType::kFloat64, .bound = Lossless{}, .fill = 1e20});
    pb::StepManifest step = StepOf(3, {"p", "k", "h", "b", "d"});
    if (missing)
      for (pb::FieldStep& field : *step.mutable_fields()) field.mutable_mask()->set_name("0");
    hierarchy_ = MakeOf(dataset, {step}, std::move(view));
    entry_ = hierarchy_->Find(key);
    ASSERT_TRUE(entry_);
  }
  /// Adds equal samples in the box of this corner and shape, x, y, z.
  template <typename T>
  static Status Add(ChunkBuffer* chunk, const Index3& begin, const Index3& shape, T value) {
    const Box box{begin, {begin[0] + shape[0], begin[1] + shape[1], begin[2] + shape[2]}};
    const std::vector<T> samples(static_cast<std::size_t>(box.volume()), value);
    return chunk->Add(box, std::as_bytes(std::span(samples)));
  }
  template <typename T>
  static T At(const Bytes& chunk, std::size_t z, std::size_t y, std::size_t x) {
    return GetLittleEndian<T>(chunk.data() + ((z * 16 + y) * 16 + x) * sizeof(T));
  }
};

TEST_F(ChunkBufferTest, PutsBlocksInTheirPlacesAndPadsTheRest) {
  Open("0/k/c/1/2/2");
  ChunkBuffer buffer(entry_->chunk);
  ASSERT_TRUE(Add<std::int16_t>(&buffer, {32, 32, 16}, {13, 2, 3}, 7).ok());
  EXPECT_EQ(buffer.CheckComplete().code(), StatusCode::kInternal);
  ASSERT_TRUE(Add<std::int16_t>(&buffer, {32, 32, 19}, {13, 2, 4}, 8).ok());
  ASSERT_TRUE(buffer.CheckComplete().ok());
  const auto chunk = buffer.Take();
  EXPECT_EQ(chunk->size(), entry_->size);
  for (std::size_t z = 0; z < 16; ++z)
    for (std::size_t y = 0; y < 16; ++y)
      for (std::size_t x = 0; x < 16; ++x)
        EXPECT_EQ(At<std::int16_t>(*chunk, z, y, x), z < 7 && y < 2 && x < 13 ? (z < 3 ? 7 : 8) : -999);
}

TEST_F(ChunkBufferTest, MissingSamplesAreNaN) {
  for (const bool missing : {false, true}) {
    Open("0/p/c/1/2/2", missing);
    ChunkBuffer buffer(entry_->chunk);
    ASSERT_TRUE(Add<float>(&buffer, {32, 32, 16}, {13, 2, 7}, INFINITY).ok());
    const auto chunk = buffer.Take();
    EXPECT_EQ(std::isnan(At<float>(*chunk, 0, 0, 0)), missing);
    EXPECT_TRUE(std::isnan(At<float>(*chunk, 8, 0, 0)));
  }
}

TEST_F(ChunkBufferTest, SamplesAreOfTheTypeInWhichTheyWereGiven) {
  Open("0/h/c/1/2/2");
  EXPECT_EQ(Document(*hierarchy_, "0/h/zarr.json")["data_type"], "float16");
  EXPECT_EQ(Document(*hierarchy_, "0/h/zarr.json")["fill_value"], "NaN");
  ASSERT_EQ(entry_->size, 2U * 16 * 16 * 16);
  ChunkBuffer halves(entry_->chunk);
  ASSERT_TRUE(Add<float>(&halves, {32, 32, 16}, {13, 2, 3}, 65504).ok());
  ASSERT_TRUE(Add<float>(&halves, {32, 32, 19}, {13, 2, 4}, -0.099975586F).ok());
  const auto chunk = halves.Take();
  ASSERT_EQ(chunk->size(), entry_->size);
  // 0x7bff is the largest number, 0xae66 the nearest to -0.1, and 0x7e00 NaN.
  EXPECT_EQ(At<std::uint16_t>(*chunk, 2, 1, 12), 0x7bff);
  EXPECT_EQ(At<std::uint16_t>(*chunk, 3, 0, 0), 0xae66);
  for (const auto& [z, y, x] : {std::array{7, 0, 0}, std::array{0, 2, 0}, std::array{0, 0, 13}})
    EXPECT_EQ(At<std::uint16_t>(*chunk, z, y, x), 0x7e00);

  Open("0/b/c/1/2/2");
  EXPECT_EQ(Document(*hierarchy_, "0/b/zarr.json")["data_type"], "bool");
  ChunkBuffer bools(entry_->chunk);
  ASSERT_TRUE(Add<std::uint8_t>(&bools, {32, 32, 16}, {13, 2, 3}, 7).ok());
  ASSERT_TRUE(Add<std::uint8_t>(&bools, {32, 32, 19}, {13, 2, 4}, 0).ok());
  const auto truths = bools.Take();
  EXPECT_EQ(At<std::uint8_t>(*truths, 0, 0, 0), 1) << "all but 0 is true";
  EXPECT_EQ(At<std::uint8_t>(*truths, 3, 0, 0), 0);
}

TEST_F(ChunkBufferTest, MissingSamplesOfFloat16AreNaN) {
  for (const bool missing : {false, true}) {
    for (const float sample : {9.5F, INFINITY}) {
      Open("0/h/c/1/2/2", missing);
      ChunkBuffer buffer(entry_->chunk);
      ASSERT_TRUE(Add<float>(&buffer, {32, 32, 16}, {13, 2, 6}, sample).ok());
      ASSERT_TRUE(Add<float>(&buffer, {32, 32, 22}, {13, 2, 1}, 1).ok());
      const auto chunk = buffer.Take();
      EXPECT_EQ(At<std::uint16_t>(*chunk, 5, 1, 12) == 0x7e00, missing) << sample;
      EXPECT_EQ(At<std::uint16_t>(*chunk, 6, 1, 12), 0x3c00);
    }
  }
}

TEST_F(ChunkBufferTest, RoundsFloat64ToFloat32) {
  for (const bool missing : {false, true}) {
    Open("0/d/c/1/2/2", missing, {.float32 = true});
    const json document = Document(*hierarchy_, "0/d/zarr.json");
    EXPECT_EQ(document["data_type"], "float32");
    EXPECT_EQ(document["attributes"]["stored_as"], "float64");
    EXPECT_FALSE(document["attributes"].contains("lossless"));
    ASSERT_EQ(entry_->size, 4U * 16 * 16 * 16);
    ChunkBuffer buffer(entry_->chunk);
    ASSERT_TRUE(Add<double>(&buffer, {32, 32, 16}, {13, 2, 3}, 0.1).ok());
    ASSERT_TRUE(Add<double>(&buffer, {32, 32, 19}, {13, 2, 2}, 1e300).ok());
    ASSERT_TRUE(Add<double>(&buffer, {32, 32, 21}, {13, 2, 2}, 1e20).ok());
    const auto chunk = buffer.Take();
    EXPECT_EQ(At<float>(*chunk, 0, 0, 0), 0.1F);
    EXPECT_EQ(At<float>(*chunk, 3, 0, 0), INFINITY) << "not missing, though float32 cannot hold it";
    EXPECT_EQ(std::isnan(At<float>(*chunk, 5, 0, 0)), missing);
    EXPECT_TRUE(std::isnan(At<float>(*chunk, 7, 0, 0)));
  }
}

TEST_F(ChunkBufferTest, RefusesWhatIsNotInTheChunk) {
  Open("0/p/c/1/2/2");
  ChunkBuffer buffer(entry_->chunk);
  EXPECT_EQ(buffer.CheckComplete().code(), StatusCode::kInternal) << "nothing has come";
  EXPECT_EQ(Add<float>(&buffer, {31, 32, 16}, {1, 1, 1}, 0).code(), StatusCode::kInternal);
  EXPECT_EQ(Add<float>(&buffer, {32, 32, 16}, {14, 2, 7}, 0).code(), StatusCode::kInternal);
  EXPECT_EQ(Add<double>(&buffer, {32, 32, 16}, {13, 2, 7}, 0).code(), StatusCode::kInternal)
      << "too many bytes";
  EXPECT_TRUE(Add<float>(&buffer, {32, 32, 16}, {13, 2, 7}, 0).ok());
  EXPECT_EQ(Add<float>(&buffer, {32, 32, 16}, {13, 2, 7}, 0).code(), StatusCode::kInternal) << "twice";
}

}  // namespace
}  // namespace quarry::zarr
