#include "tools/index/list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quarry/base/output.h"
#include "quarry/base/units.h"
#include "quarry/format/manifest.h"
#include "quarry/index/index_locator.h"

namespace quarry::tools {
namespace {

using nlohmann::ordered_json;

/// One line of the list.
struct Listed {
  std::uint64_t step = 0;
  std::string field;
  SubfileDescription subfile;

  std::string path() const { return format::StepFolder(step) + "/" + field + "/" + subfile.name; }
};

ordered_json ToJson(const Listed& listed) {
  return {{"step", listed.step},
          {"field", listed.field},
          {"file", listed.path()},
          {"box", {{"begin", listed.subfile.bounds.begin}, {"end", listed.subfile.bounds.end}}},
          {"patches", listed.subfile.patches},
          {"bytes", listed.subfile.bytes}};
}

class Lister {
 public:
  Lister(const Dataset& dataset, const index::IndexLocator& index, const ListRequest& request)
      : dataset_(dataset), index_(index), request_(request) {}

  Status Run(const std::vector<std::uint64_t>& steps) {
    for (const std::uint64_t step : steps) {
      QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_.Step(step));
      for (const FieldStepDescription& field : description->fields)
        if (request_.field.empty() || field.name == request_.field)
          QUARRY_RETURN_IF_ERROR(ListField(step, field));
    }
    if (request_.json)
      PrintOut("{}\n", list_.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    else
      PrintOut("{} subfiles, {}\n", listed_, FormatBytes(bytes_));
    return Status::Ok();
  }

 private:
  Status ListField(std::uint64_t step, const FieldStepDescription& field) {
    const std::optional<std::size_t> number = dataset_.description().FindField(field.name);
    if (!number)
      return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, field.name);
    const GridDescription& grid = dataset_.description().GridOf(*number);
    Box box = grid.domain();
    if (!request_.box.empty()) {
      QUARRY_ASSIGN_OR_RETURN(box, ParseBox(request_.box, grid.dims));
    }
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> meeting,
                            index_.SubfilesMeeting(step, *number, box));
    for (const std::uint32_t subfile : meeting) Print({step, field.name, field.subfiles[subfile]});
    return Status::Ok();
  }

  void Print(const Listed& listed) {
    if (request_.json) {
      list_.push_back(ToJson(listed));
      return;
    }
    PrintOut("{}  {}  {} patches, {}\n", listed.path(), ToString(listed.subfile.bounds),
             listed.subfile.patches, FormatBytes(listed.subfile.bytes));
    ++listed_;
    bytes_ += listed.subfile.bytes;
  }

  const Dataset& dataset_;
  const index::IndexLocator& index_;
  const ListRequest& request_;
  ordered_json list_ = ordered_json::array();
  std::uint64_t listed_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Status ListSubfiles(const std::shared_ptr<const Dataset>& dataset, const Location& index,
                    const ListRequest& request) {
  if (!request.field.empty() && !dataset->description().FindField(request.field))
    return NotFound("there is no field \"{}\"; list the fields with \"quarry info\"", request.field);
  std::vector<std::uint64_t> steps = dataset->steps();
  if (request.step) {
    if (std::ranges::find(steps, *request.step) == steps.end())
      return NotFound("there is no step {}; list the steps with \"quarry info\"", *request.step);
    steps = {*request.step};
  }
  Status damage;  // the list is right all the same: step.json has the boxes
  QUARRY_ASSIGN_OR_RETURN(const auto locator,
                          index::IndexLocator::Open(dataset, index, std::filesystem::temp_directory_path(),
                                                    [&](const Status& told) { damage = told; }));
  QUARRY_RETURN_IF_ERROR(Lister(*dataset, *locator, request).Run(steps));
  return damage;
}

}  // namespace quarry::tools
