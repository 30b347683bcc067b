// Clients that no server wishes for: thousands of streams at once, and requests that are no messages. Says on
// stdout, as JSON, how the calls ended; exits with 1 when one ended in a way that it should not.
#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "quarry/v1/service.grpc.pb.h"

namespace {

namespace pb = ::quarry::v1;

struct Options {
  std::string address;
  std::string dataset;
  std::string field;
  int count = 1000;
  int connections = 1;
  bool take = false;
  std::uint64_t seed = 1;
};

/// How many calls ended with each code, by its number.
using Outcomes = std::map<int, int>;

void Print(const Outcomes& outcomes) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [code, count] : outcomes) json[std::to_string(code)] = count;
  fmt::print("{}\n", json.dump());
}

/// Each with a connection of its own: gRPC would share one otherwise.
std::vector<std::shared_ptr<grpc::Channel>> Connect(const Options& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channels.push_back(
        grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
  }
  return channels;
}

// --- streams ---

/// One Read whose answer is not taken before it is told to.
struct Stream {
  enum class Next { kStarted, kMessage, kEnd };

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncReader<pb::ReadResponse>> reader;
  pb::ReadResponse message;
  grpc::Status status;
  Next next = Next::kStarted;

  void Continue(bool ok) {
    next = next != Next::kEnd && ok ? Next::kMessage : Next::kEnd;
    if (next == Next::kMessage) {
      reader->Read(&message, this);
    } else {
      reader->Finish(&status, this);
    }
  }
};

/// Begins all reads before it takes a byte of any, unless answers are to be taken as they come.
Outcomes OpenStreams(const Options& options) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset(options.dataset);
  request.mutable_query()->set_field(options.field);
  std::vector<std::unique_ptr<pb::QuarryService::Stub>> stubs;
  for (const auto& channel : Connect(options)) stubs.push_back(pb::QuarryService::NewStub(channel));

  grpc::CompletionQueue queue;
  std::vector<Stream> streams(static_cast<std::size_t>(options.count));
  for (std::size_t i = 0; i < streams.size(); ++i)
    streams[i].reader = stubs[i % stubs.size()]->AsyncRead(&streams[i].context, request, &queue, &streams[i]);
  void* tag = nullptr;
  bool ok = false;
  if (!options.take) {
    for (std::size_t i = 0; i < streams.size() && queue.Next(&tag, &ok);) ++i;
    for (Stream& stream : streams) stream.Continue(true);
  }

  Outcomes outcomes;
  for (std::size_t ended = 0; ended < streams.size() && queue.Next(&tag, &ok);) {
    auto* stream = static_cast<Stream*>(tag);
    if (stream->next == Stream::Next::kEnd) {
      ++outcomes[stream->status.error_code()];
      ++ended;
    } else {
      stream->Continue(ok);
    }
  }
  return outcomes;
}

// --- requests ---

struct Method {
  const char* name;
  std::string good;                           ///< a request that is answered
  bool (*parses)(const std::string& request);  ///< as the server would
  bool endless = false;                        ///< the answer goes on until the client cancels
};

template <typename Message>
bool Parses(const std::string& request) {
  Message message;
  return message.ParseFromString(request);
}

std::vector<Method> Methods(const Options& options) {
  pb::ReadQuery query;
  query.set_dataset(options.dataset);
  query.set_field(options.field);
  query.set_level(1);
  query.set_first_level(2);
  for (int axis = 0; axis < 3; ++axis) {
    query.mutable_box()->add_begin(1);
    query.mutable_box()->add_end(9);
  }
  pb::GetDatasetRequest dataset;
  dataset.set_dataset(options.dataset);
  dataset.set_page_token("0");
  pb::ListDatasetsRequest list;
  list.set_page_size(3);
  list.set_page_token("a");
  pb::PlanReadRequest plan;
  *plan.mutable_query() = query;
  pb::ReadRequest read;
  *read.mutable_query() = query;
  pb::GetStatisticsRequest statistics;
  *statistics.mutable_query() = query;
  statistics.add_percentiles(50);
  statistics.set_bins(8);
  pb::ReadPointsRequest points;
  points.set_dataset(options.dataset);
  points.set_field(options.field);
  for (int i = 0; i < 6; ++i) points.add_coordinates(i + 0.5);
  pb::WatchStepsRequest watch;
  watch.set_dataset(options.dataset);
  watch.set_after(0);
  return {{"ListDatasets", list.SerializeAsString(), Parses<pb::ListDatasetsRequest>},
          {"GetDataset", dataset.SerializeAsString(), Parses<pb::GetDatasetRequest>},
          {"PlanRead", plan.SerializeAsString(), Parses<pb::PlanReadRequest>},
          {"Read", read.SerializeAsString(), Parses<pb::ReadRequest>},
          {"GetStatistics", statistics.SerializeAsString(), Parses<pb::GetStatisticsRequest>},
          {"ReadPoints", points.SerializeAsString(), Parses<pb::ReadPointsRequest>},
          {"WatchSteps", watch.SerializeAsString(), Parses<pb::WatchStepsRequest>, true}};
}

/// Bytes changed, taken out, put in, doubled, cut off; or nothing but noise.
std::string Mutate(std::string bytes, std::mt19937_64* random) {
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>((*random)() % end); };
  const std::size_t changes = 1 + below(4);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = below(bytes.size() + 1);
    const char byte = static_cast<char>(below(256));
    switch (below(7)) {
      case 0:
        if (at < bytes.size()) bytes[at] = byte;
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.insert(at, 1, byte);
        break;
      case 3:
        bytes.erase(at, 1 + below(3));
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.insert(at, std::string(1 + below(10), '\xff'));  // lengths and numbers beyond all bounds
        break;
      default:
        bytes += bytes.substr(at);
    }
  }
  return bytes;
}

/// Sends the bytes as they are, and takes the whole answer; of an endless one, what comes in a moment.
grpc::Status Call(grpc::GenericStub* stub, const std::string& method, const std::string& bytes, bool endless) {
  constexpr auto kMoment = std::chrono::milliseconds(50);
  grpc::ClientContext context;
  if (endless) context.set_deadline(std::chrono::system_clock::now() + kMoment);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub->PrepareCall(&context, "/quarry.v1.QuarryService/" + method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
  } while (ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

/// What is no message fails in gRPC, before the server's own code; what is one is answered, or refused with a
/// reason that lies in the question.
bool IsRight(const grpc::Status& status, bool parses, bool endless) {
  if (endless && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return true;
  if (!parses) return status.error_code() == grpc::StatusCode::INTERNAL;
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::OUT_OF_RANGE:
      return true;
    default:
      return false;
  }
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// Returns whether all statuses were right.
bool SendRequests(const Options& options, Outcomes* outcomes) {
  grpc::GenericStub stub(Connect(options).front());
  const std::vector<Method> methods = Methods(options);
  std::mt19937_64 random(options.seed);
  bool right = true;
  const auto send = [&](const std::string& method, const std::string& bytes, bool endless, auto&& is_right) {
    const grpc::Status status = Call(&stub, method, bytes, endless);
    ++(*outcomes)[status.error_code()];
    if (is_right(status)) return;
    right = false;
    fmt::print(stderr, "{} {}: status {}: {}\n", method, Hex(bytes.substr(0, 200)),
               static_cast<int>(status.error_code()), status.error_message());
  };
  const auto has_code = [](grpc::StatusCode code) {
    return [code](const grpc::Status& status) { return status.error_code() == code; };
  };
  for (const Method& method : methods) {
    send(method.name, method.good, method.endless,
         has_code(method.endless ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::OK));
    send(method.name, std::string(5 << 20, '\n'), false, has_code(grpc::StatusCode::RESOURCE_EXHAUSTED));
  }
  send("NoSuchMethod", methods[0].good, false, has_code(grpc::StatusCode::UNIMPLEMENTED));
  for (int i = 0; i < options.count; ++i) {
    const Method& method = methods[random() % methods.size()];
    const std::string bytes = Mutate(method.good, &random);
    send(method.name, bytes, method.endless, [&](const grpc::Status& status) {
      return IsRight(status, method.parses(bytes), method.endless);
    });
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Clients that no server wishes for.", "hostile_client");
  app.require_subcommand(1);
  auto* streams = app.add_subcommand("streams", "begins so many reads at once, then takes their answers");
  auto* requests = app.add_subcommand("requests", "sends so many requests of changed bytes");
  for (auto* command : {streams, requests}) {
    command->add_option("ADDRESS", options.address, "HOST:PORT, plain text")->required();
    command->add_option("--dataset", options.dataset, "name of a dataset")->required();
    command->add_option("--field", options.field, "one of its fields")->required();
    command->add_option("--count", options.count, "of streams or requests")->check(CLI::PositiveNumber);
  }
  streams->add_option("--connections", options.connections, "that carry them")->check(CLI::PositiveNumber);
  streams->add_flag("--take", options.take, "take answers as they come: streams may wait for one another");
  requests->add_option("--seed", options.seed, "another number makes other requests");
  CLI11_PARSE(app, argc, argv);

  Outcomes outcomes;
  bool right = true;
  if (streams->parsed()) {
    outcomes = OpenStreams(options);
  } else {
    right = SendRequests(options, &outcomes);
  }
  Print(outcomes);
  return right ? 0 : 1;
}
