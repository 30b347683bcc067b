#include <fmt/format.h>

#include <variant>

#include "clients/python/answer.h"
#include "clients/python/bind.h"
#include "clients/python/translate.h"
#include "quarry/query/question_rules.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

using Recode = std::variant<double, std::string>;

/// @throws nb::value_error: no such encoding, or an error that it cannot add
client::Transfer MakeTransfer(const std::string& encoding, const std::optional<Recode>& recode,
                              const query::Target& target) {
  std::string text;
  if (recode) text = std::visit([](const auto& given) { return fmt::format("{}", given); }, *recode);
  const Result<client::Transfer> transfer = client::ParseTransfer(encoding, text);
  CheckArgument(transfer.status());
  CheckArgument(query::CheckRecode(transfer->recode, target));
  return *transfer;
}

/// @throws nb::value_error: more than one of level, max_error, max_bytes and stride; those of MakeTransfer
Question MakeQuestion(std::string field, std::optional<std::uint64_t> step, std::optional<ZyxBox> box,
                      std::optional<int> level, std::optional<double> max_error,
                      std::optional<std::uint64_t> max_bytes, std::optional<Zyx<std::int64_t>> stride,
                      std::optional<int> first_level, std::optional<Zyx<double>> focus,
                      std::optional<std::pair<double, double>> values, bool strict, std::optional<int> layer,
                      std::optional<int> first_layer, const std::optional<std::string>& encoding,
                      const std::optional<Recode>& recode) {
  Question question;
  question.layer = layer;
  question.first_layer = first_layer;
  question.field = std::move(field);
  question.step = step;
  if (box) question.box = ToXyz(*box);
  query::GivenTargets given{level, max_error, max_bytes, std::nullopt};
  if (stride) given.stride = ToXyz(*stride);
  const Result<query::Target> target =
      query::MakeTarget(given, {"level", "max_error", "max_bytes", "stride"});
  CheckArgument(target.status());
  question.target = *target;
  if (encoding || recode) question.transfer = MakeTransfer(encoding.value_or("auto"), recode, *target);
  question.first_level = first_level;
  if (focus) question.focus = ToXyz(*focus);
  if (values) question.values = query::Bounds{values->first, values->second};
  question.allow_damage = !strict;
  return question;
}

}  // namespace

void BindAnswers(nb::module_& m) {
  nb::class_<Question>(m, "Question")
      .def(nb::new_(&MakeQuestion), "field"_a, nb::kw_only(), "step"_a = nb::none(), "box"_a = nb::none(),
           "level"_a = nb::none(), "max_error"_a = nb::none(), "max_bytes"_a = nb::none(),
           "stride"_a = nb::none(), "first_level"_a = nb::none(), "focus"_a = nb::none(),
           "values"_a = nb::none(), "strict"_a = true, "layer"_a = nb::none(), "first_layer"_a = nb::none(),
           "encoding"_a = nb::none(), "recode"_a = nb::none());
  nb::class_<Answer>(m, "Answer")
      .def_ro("array", &Answer::array)
      .def_prop_ro("field", [](const Answer& answer) { return answer.samples.field; })
      .def_prop_ro("step", [](const Answer& answer) { return answer.samples.step; })
      .def_prop_ro("level", [](const Answer& answer) { return answer.samples.level; })
      .def_prop_ro("layer", [](const Answer& answer) { return answer.samples.layer; })
      .def_prop_ro("last", [](const Answer& answer) { return answer.samples.last(); })
      .def_prop_ro("max_error", [](const Answer& answer) { return answer.samples.max_error; })
      .def_prop_ro("extent", [](const Answer& answer) { return ToZyx(answer.samples.extent); })
      .def_prop_ro("spacing", [](const Answer& answer) { return ToZyx(answer.samples.spacing); })
      .def_prop_ro("damaged",
                   [](const Answer& answer) {
                     std::vector<std::pair<ZyxBox, int>> damaged;
                     for (const client::DamagedBox& box : answer.samples.damaged)
                       damaged.emplace_back(ToZyx(box.extent), box.shown_level);
                     return damaged;
                   })
      .def_prop_ro("rougher",
                   [](const Answer& answer) {
                     std::vector<std::pair<ZyxBox, int>> rougher;
                     for (const client::DamagedBox& box : answer.samples.damaged) {
                       if (box.shown_layer < answer.samples.layer)
                         rougher.emplace_back(ToZyx(box.extent), box.shown_layer);
                     }
                     return rougher;
                   })
      .def_prop_ro("may_miss", [](const Answer& answer) { return answer.samples.may_miss; })
      .def_prop_ro("left_out", [](const Answer& answer) {
        std::vector<ZyxBox> left_out;
        for (const Box& box : answer.samples.left_out) left_out.push_back(ToZyx(box));
        return left_out;
      });
  nb::class_<query::Cost>(m, "Price", "What an answer costs.")
      .def_ro("patches", &query::Cost::patches, "Number of patches that are decoded.")
      .def_ro("bytes", &query::Cost::bytes, "Bytes of the compressed data that are needed.")
      .def_ro("bytes_read", &query::Cost::bytes_read,
              "Bytes read from disk if nothing is in memory yet, with the gaps between ranges that are read "
              "together.")
      .def_ro("reads", &query::Cost::reads, "Number of reads from disk, if nothing is in memory yet.")
      .def_ro("reply_bytes", &query::Cost::reply_bytes, "Bytes of the samples of all levels of the answer.")
      .def_ro("coded_bytes", &query::Cost::coded_bytes, "Estimated bytes of the answer, coded by a server.");
  nb::class_<query::LevelExtent>(m, "PlannedLevel", "A level of an answer.")
      .def_ro("level", &query::LevelExtent::level, "0 is full resolution.")
      .def_ro("layer", &query::LevelExtent::layer, "Of accuracy, 0 the roughest.")
      .def_prop_ro(
          "extent", [](const query::LevelExtent& level) { return ToZyx(level.extent); },
          "Samples of this level along z, y, x, half-open: sample i of an axis lies at i * spacing of full "
          "resolution.")
      .def_prop_ro(
          "spacing", [](const query::LevelExtent& level) { return ToZyx(level.spacing); },
          "Samples of full resolution between neighbours along z, y, x.")
      .def_ro("max_error", &query::LevelExtent::max_error,
              "What the original field differs by at most from what this level shows, in the field's unit.")
      .def_ro("bytes", &query::LevelExtent::bytes,
              "Bytes of compressed data that it adds to those of the levels before it.")
      .def_ro("coverage", &query::LevelExtent::coverage,
              "Share of the valid samples of full resolution that it can show, 0 to 1.");
  nb::class_<query::AnswerHeader>(m, "Plan", "What a request would be answered with.")
      .def_ro("field", &query::AnswerHeader::field, "Name of the field.")
      .def_ro("step", &query::AnswerHeader::step, "Number of the step.")
      .def_ro("layer", &query::AnswerHeader::layer, "Layer of accuracy, 0 is the roughest.")
      .def_ro("levels", &query::AnswerHeader::levels, "In the order of delivery, the coarsest first.")
      .def_ro("price", &query::AnswerHeader::cost, "Price of the whole answer.");
}

}  // namespace quarry::python
