#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/dataset/verify.h"
#include "quarry/remote/open_url.h"
#include "tools/quarry/verify.h"

namespace quarry::tools {
namespace {

/// Checks every checksum of a dataset directory.
Result<int> VerifyChecksums(const VerifyOptions& options) {
  if (options.question.target.starts_with("grpc://") || options.question.target.starts_with("grpcs://")) {
    return InvalidArgument(
        "checksums can only be checked in a dataset directory; give the directory, or --against SOURCE to "
        "compare samples through the server");
  }
  const QuestionOptions& question = options.question;
  if (!question.field.empty() || question.step || !question.box.empty() || question.level.value_or(0) != 0) {
    return InvalidArgument(
        "checksums are checked over the whole dataset; use --field, --step, --box and --level with "
        "--against");
  }
  const remote::UrlOptions access{question.server.allow_http, {.folder = question.server.cache}};
  QUARRY_ASSIGN_OR_RETURN(const Location location, remote::LocationOf(question.target, access));
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const quarry::Dataset> dataset,
                          quarry::Dataset::Open(location));
  Progress progress("verify", 1000, !options.json);
  QUARRY_ASSIGN_OR_RETURN(const VerifyReport report,
                          VerifyDataset(*dataset, [&](std::uint64_t done, std::uint64_t total) {
                            progress.Update(total == 0 ? 1000 : 1000 * done / total);
                          }));
  if (options.json) {
    nlohmann::ordered_json json = {{"steps", report.steps},   {"records", report.records},
                                   {"coarse", report.coarse}, {"subfiles", report.subfiles},
                                   {"masks", report.masks},   {"patches", report.patches},
                                   {"bytes", report.bytes},   {"damage", nlohmann::json::array()}};
    for (const Status& damage : report.damage) json["damage"].push_back(damage.message());
    PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    Print("{} steps, {} records, {} subfiles, {} patches, {} of payload checked\n", report.steps,
          report.records, report.subfiles, report.patches, FormatBytes(report.bytes));
    for (std::size_t i = 1; i < report.damage.size(); ++i) Print("damaged: {}\n", report.damage[i].message());
  }
  if (!report.damage.empty()) return report.damage.front();
  return 0;
}

}  // namespace

Command DeclareVerify(command_line::Parser* app) {
  auto options = std::make_shared<VerifyOptions>();
  options->question.DeclareOn(app);
  app->AddOption("--against", &options->against,
                 "source file of the field: compare samples with it instead of checksums");
  app->AddOption("--format", &options->source.format, "format of the source, as for quarry-write");
  app->AddOption("--dims", &options->dims, "XxYxZ (of a raw source)");
  app->AddOption("--type", &options->type, "float32, uint8, ... (of a raw source)");
  app->AddOption("--byte-order", &options->byte_order, "little or big (of a raw source)")
      .OneOf({"little", "big"});
  app->AddOption("--offset", &options->source.offset, "bytes before the first sample (of a raw source)");
  app->AddOption("--axes", &options->source.axes,
                 "roles of the dimensions of the source, as for quarry-write");
  app->AddOption("--index", &options->index, "NAME=K or NAME=BEGIN:END (of the source), as for quarry-write")
      .Repeatable();
  app->AddOption("--records", &options->records, "none or fortran: record format (of a raw source)")
      .OneOf({"none", "fortran"});
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter(
      "Example:\n  quarry verify run42.quarry --against pressure.f32 --dims 512x512x512 --type float32");
  return [options] {
    options->question.server.cache = "";  // the store is checked, not a copy of it
    return options->against.empty() ? VerifyChecksums(*options) : VerifyAgainst(*options);
  };
}

}  // namespace quarry::tools
