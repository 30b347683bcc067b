// Asks a Quarry server, or a directory, the questions on stdin and prints how long each answer took: Quarry's
// side of run.py.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "benchmarks/serve/conversation.h"
#include "quarry/base/memory.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/command_line/command_line.h"
#include "quarry/query/question_rules.h"
#include "quarry/v1/service.grpc.pb.h"
#include "quarry/wire/convert.h"

namespace {

namespace pb = quarry::v1;
using quarry::Result;
using quarry::Status;
using quarry::serve_bench::Json;
using quarry::serve_bench::Now;

constexpr std::string_view kScheme = "grpc://";
constexpr const char* kFooter =
    "Questions, one JSON object a line; what is left out of \"boxes\" is the whole grid:\n"
    "  {\"boxes\": [\"0:64,0:64,0:64\"]}       seconds of each box, one after the other\n"
    "  {\"stride\": 8}                       every eighth sample along each axis\n"
    "  {\"max_error\": 0.01}                the cheapest level and layer within it\n"
    "  {\"boxes\": [...], \"output\": \"F.raw\"}  writes the samples of the last box, too\n"
    "  {\"levels\": true}                    seconds until each level is there, coarse to fine\n"
    "  {\"drain\": 64, \"encoding\": \"patches\"}  that many clients, each on a connection of its own, take "
    "the messages and throw them away\n"
    "  {\"price\": \"0:64,0:64,0:64\"}         what a box costs, without reading it\n"
    "Example:\n  echo '{\"stride\": 8}' | client_bench grpc://127.0.0.1:50051/run42";

Result<quarry::query::ReadRequest> Request(const std::string& field, const Json& question) {
  quarry::query::GivenTargets given;
  if (question.contains("level")) given.level = question["level"].get<int>();
  if (question.contains("max_error")) given.max_error = question["max_error"].get<double>();
  if (question.contains("stride")) {
    const auto stride = question["stride"].get<std::int64_t>();
    given.stride = quarry::Index3{stride, stride, stride};
  }
  quarry::query::ReadRequest request;
  request.field = field;
  QUARRY_ASSIGN_OR_RETURN(request.target,
                          quarry::query::MakeTarget(given, {"level", "max_error", "", "stride"}));
  return request;
}

/// An empty text is the whole grid.
Result<quarry::Box> BoxOf(const std::string& text, const quarry::client::Dataset& dataset) {
  const quarry::Index3& dims = dataset.description().grids[0].dims;
  if (text.empty()) return quarry::Box{{0, 0, 0}, dims};
  return quarry::ParseBox(text, dims);
}

Status WriteFile(const std::string& path, const quarry::Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file.flush() ? Status::Ok() : quarry::InternalError("cannot write \"{}\"", path);
}

/// Box after box, each from the question to the assembled array.
Result<Json> ReadBoxes(const quarry::client::Dataset& dataset, const std::string& field,
                       const Json& question) {
  std::vector<quarry::Box> boxes;
  for (const Json& text : question.value("boxes", Json::array({""}))) {
    QUARRY_ASSIGN_OR_RETURN(const quarry::Box box, BoxOf(text.get<std::string>(), dataset));
    boxes.push_back(box);
  }
  QUARRY_ASSIGN_OR_RETURN(quarry::query::ReadRequest request, Request(field, question));
  std::vector<double> seconds;
  std::uint64_t bytes = 0;
  const double begin = Now();
  for (const quarry::Box& box : boxes) {
    request.box = box;
    const double asked = Now();
    QUARRY_ASSIGN_OR_RETURN(const quarry::client::LevelSamples samples, dataset.Read(request));
    seconds.push_back(Now() - asked);
    bytes += samples.data.size();
    if (question.contains("output") && &box == &boxes.back())
      QUARRY_RETURN_IF_ERROR(WriteFile(question["output"].get<std::string>(), samples.data));
  }
  return Json{{"seconds", seconds}, {"begin", begin}, {"end", Now()}, {"bytes", bytes}};
}

/// The whole grid from the coarsest level on.
Result<Json> ReadLevels(const quarry::client::Dataset& dataset, const std::string& field,
                        const Json& question) {
  QUARRY_ASSIGN_OR_RETURN(quarry::query::ReadRequest request, Request(field, question));
  request.first_level = dataset.description().grids[0].levels - 1;
  Json levels = Json::array();
  const double asked = Now();
  QUARRY_RETURN_IF_ERROR(dataset.ReadLevels(
      request, [&](quarry::client::LevelSamples* samples, const quarry::client::ReadCost& cost) {
        levels.push_back({{"level", samples->level},
                          {"seconds", Now() - asked},
                          {"shape", samples->extent.shape()},
                          {"max_error", samples->max_error},
                          {"bytes_received", cost.bytes_received}});
        return Status::Ok();
      }));
  return Json{{"levels", levels}};
}

/// Bytes and times of one client, from its connection.
struct Drained {
  double begin = 0;
  double end = 0;
  std::uint64_t messages = 0;
  std::uint64_t wire_bytes = 0;
};

/// Five bytes before each message say how long it is; HTTP/2 and TCP add about half a percent more.
constexpr std::uint64_t kFrameBytes = 5;

/// Keeps nothing: there is no memory for 64 clients with a GiB each.
Result<Drained> Drain(const std::string& address, const pb::ReadRequest& request) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  const auto stub = pb::QuarryService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  Drained drained;
  drained.begin = Now();
  const auto stream = stub->Read(&context, request);
  pb::ReadResponse message;
  while (stream->Read(&message)) {
    ++drained.messages;
    drained.wire_bytes += message.ByteSizeLong() + kFrameBytes;
  }
  const grpc::Status status = stream->Finish();
  drained.end = Now();
  if (!status.ok())
    return Status(static_cast<quarry::StatusCode>(status.error_code()), status.error_message());
  return drained;
}

Result<Json> DrainClients(const std::string& target, const quarry::client::Dataset& dataset,
                          const std::string& field, const Json& question) {
  if (!target.starts_with(kScheme))
    return quarry::InvalidArgument("\"{}\" is no server: there is nothing to drain", target);
  const std::size_t slash = target.find('/', kScheme.size());
  const std::string address = target.substr(kScheme.size(), slash - kScheme.size());
  QUARRY_ASSIGN_OR_RETURN(quarry::query::ReadRequest read, Request(field, question));
  if (question.contains("boxes")) {
    const auto text = question["boxes"].at(0).get<std::string>();
    QUARRY_ASSIGN_OR_RETURN(read.box, BoxOf(text, dataset));
  }
  pb::ReadRequest request;
  *request.mutable_query() =
      quarry::wire::ToProto(target.substr(slash + 1), quarry::query::SeriesRequest{read, {}, {}});
  request.set_encoding(question.value("encoding", "samples") == "patches" ? pb::ENCODING_PATCHES
                                                                          : pb::ENCODING_SAMPLES);

  std::mutex mutex;
  Status status;
  std::vector<double> seconds;
  Drained all;
  all.begin = Now();
  std::vector<std::jthread> clients;
  for (int client = 0; client < question["drain"].get<int>(); ++client) {
    clients.emplace_back([&] {
      const Result<Drained> one = Drain(address, request);
      const std::lock_guard lock(mutex);
      if (!one.ok()) {
        status = one.status();
        return;
      }
      seconds.push_back(one->end - one->begin);
      all.messages += one->messages;
      all.wire_bytes += one->wire_bytes;
    });
  }
  clients.clear();
  QUARRY_RETURN_IF_ERROR(status);
  return Json{{"seconds", seconds},
              {"begin", all.begin},
              {"end", Now()},
              {"messages", all.messages},
              {"wire_bytes", all.wire_bytes}};
}

Result<Json> Cost(const quarry::client::Dataset& dataset, const std::string& field, const Json& question) {
  QUARRY_ASSIGN_OR_RETURN(quarry::query::ReadRequest request, Request(field, question));
  const auto text = question["price"].get<std::string>();
  QUARRY_ASSIGN_OR_RETURN(request.box, BoxOf(text, dataset));
  QUARRY_ASSIGN_OR_RETURN(const quarry::query::AnswerHeader header, dataset.PlanRead(request));
  return Json{{"patches", header.cost.patches},
              {"payload_bytes", header.cost.bytes},
              {"reply_bytes", header.cost.reply_bytes}};
}

struct Options {
  std::string target;
  std::string field;
  std::string encoding = "auto";
  std::string ca_file;
  int threads = 0;
};

/// Encodings by the names of `quarry get`.
const std::map<std::string, quarry::client::Encoding> kEncodings = {
    {"auto", quarry::client::Encoding::kAuto},
    {"samples", quarry::client::Encoding::kSamples},
    {"patches", quarry::client::Encoding::kPatches},
    {"coded", quarry::client::Encoding::kCoded}};

Status Run(const Options& options) {
  const double begin = Now();
  quarry::client::Options open{.threads = options.threads, .encoding = kEncodings.at(options.encoding)};
  open.security.ca_file = options.ca_file;
  if (const char* token = std::getenv("QUARRY_TOKEN")) open.security.token = token;
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, quarry::client::Dataset::Open(options.target, open));
  const std::string field = options.field.empty() ? dataset->description().fields.at(0).name : options.field;
  std::cout << Json{{"open_seconds", Now() - begin}, {"levels", dataset->description().grids[0].levels}}
            << std::endl;
  quarry::serve_bench::Converse([&](const Json& question) -> Result<Json> {
    if (question.contains("price")) return Cost(*dataset, field, question);
    if (question.contains("drain")) return DrainClients(options.target, *dataset, field, question);
    if (question.contains("levels")) return ReadLevels(*dataset, field, question);
    return ReadBoxes(*dataset, field, question);
  });
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app("client_bench", "Times the answers to questions that come on stdin.");
  app.AddOption("TARGET", &options.target, "grpc://HOST:PORT/NAME, or a dataset directory").Required();
  app.AddOption("--field", &options.field, "default: the first");
  app.AddOption("--threads", &options.threads, "decoding threads; default: one per processor");
  app.AddOption("--encoding", &options.encoding,
                "encoding of the answers, except to \"drain\"; default: auto")
      .OneOf({"auto", "samples", "patches", "coded"});
  app.AddOption("--ca", &options.ca_file, "for grpcs://: PEM file of the authorities to trust");
  app.SetFooter(kFooter);
  quarry::KeepFreedMemory();
  quarry::client::EnableGrpc();
  return RunProgram(&app, argc, argv, [&]() -> Result<int> {
    QUARRY_RETURN_IF_ERROR(Run(options));
    return 0;
  });
}
