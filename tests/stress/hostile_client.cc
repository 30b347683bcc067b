// Hostile clients: thousands of streams at once, requests that are not messages, and the largest requests of
// each kind from many clients at once. Prints on stdout, as JSON, how the calls ended; exits with 1 if a call
// ended unexpectedly.
#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "quarry/command_line/command_line.h"
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
  std::string kind;
  std::vector<std::int64_t> dims;
};

/// How many calls ended with each code, by its number.
using Outcomes = std::map<int, int>;

void Print(const Outcomes& outcomes) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [code, count] : outcomes) json[std::to_string(code)] = count;
  fmt::print("{}\n", json.dump());
}

/// Each has its own connection; otherwise gRPC would share one.
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

/// Says who asks, where the server has tokens.
void Identify(grpc::ClientContext* context) {
  if (const char* token = std::getenv("QUARRY_TOKEN"))
    context->AddMetadata("authorization", fmt::format("Bearer {}", token));
}

// --- streams ---

/// One Read whose answer is read only on request.
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

/// Begins all reads before it takes a byte of any, unless answers are to be taken as they arrive.
Outcomes OpenStreams(const Options& options) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset(options.dataset);
  request.mutable_query()->set_field(options.field);
  std::vector<std::unique_ptr<pb::QuarryService::Stub>> stubs;
  for (const auto& channel : Connect(options)) stubs.push_back(pb::QuarryService::NewStub(channel));

  grpc::CompletionQueue queue;
  std::vector<Stream> streams(static_cast<std::size_t>(options.count));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Identify(&streams[i].context);
    streams[i].reader = stubs[i % stubs.size()]->AsyncRead(&streams[i].context, request, &queue, &streams[i]);
  }
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
  std::string good;                            ///< a request that is answered
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

/// Sends the bytes unchanged, and takes the whole answer; of an endless one, only the first part.
/// @param moment  how long to take an endless answer; 0: it has an end
grpc::Status Call(grpc::GenericStub* stub, const std::string& method, const std::string& bytes,
                  std::chrono::milliseconds moment) {
  grpc::ClientContext context;
  Identify(&context);
  context.set_wait_for_ready(true);
  if (moment.count() > 0) context.set_deadline(std::chrono::system_clock::now() + moment);
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

/// Invalid messages are refused; valid ones are answered, or refused for a reason that lies in the question.
bool IsRight(const grpc::Status& status, bool parses, bool endless) {
  if (endless && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return true;
  if (!parses) return status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
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
    constexpr auto kMoment = std::chrono::milliseconds(50);
    const grpc::Status status = Call(&stub, method, bytes, endless ? kMoment : std::chrono::milliseconds(0));
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
    send(method.name, bytes, method.endless,
         [&](const grpc::Status& status) { return IsRight(status, method.parses(bytes), method.endless); });
  }
  return right;
}

// --- the largest requests ---

struct Largest {
  std::string method;
  std::string request;
  std::chrono::milliseconds moment{0};  ///< see Call
};

/// A whole grid at all levels, as finely as possible.
pb::ReadQuery Everything(const Options& options) {
  pb::ReadQuery query;
  query.set_dataset(options.dataset);
  query.set_field(options.field);
  query.set_first_level(1);
  return query;
}

pb::ReadPointsRequest MostPoints(const Options& options) {
  constexpr int kMostPoints = 100'000;
  std::mt19937_64 random(options.seed);
  pb::ReadPointsRequest points;
  points.set_dataset(options.dataset);
  points.set_field(options.field);
  for (int i = 0; i < kMostPoints; ++i) {
    for (const std::int64_t n : options.dims)
      points.add_coordinates(std::uniform_real_distribution<double>(0, static_cast<double>(n - 1))(random));
  }
  return points;
}

/// @errors kInvalidArgument: no such kind
quarry::Result<Largest> LargestOf(const Options& options) {
  pb::PlanReadRequest plan;
  *plan.mutable_query() = Everything(options);
  pb::ReadRequest read;
  *read.mutable_query() = Everything(options);
  if (options.kind == "plan") return Largest{"PlanRead", plan.SerializeAsString()};
  if (options.kind == "values") {  // every other patch is left out, and listed
    plan.mutable_query()->mutable_values()->set_low(1);
    plan.mutable_query()->mutable_values()->set_high(1);
    return Largest{"PlanRead", plan.SerializeAsString()};
  }
  if (options.kind == "names") {
    constexpr int kNames = 60'000;
    for (int i = 0; i < kNames; ++i) plan.mutable_query()->add_fields("");
    return Largest{"PlanRead", plan.SerializeAsString()};
  }
  if (options.kind == "samples") return Largest{"Read", read.SerializeAsString()};
  if (options.kind == "patches") {
    read.set_encoding(pb::ENCODING_PATCHES);
    return Largest{"Read", read.SerializeAsString()};
  }
  if (options.kind == "statistics") {
    pb::GetStatisticsRequest statistics;
    *statistics.mutable_query() = Everything(options);
    constexpr int kMostPercentiles = 100;
    constexpr std::uint32_t kMostBins = 4096;
    for (int i = 0; i < kMostPercentiles; ++i) statistics.add_percentiles(i);
    statistics.set_bins(kMostBins);
    return Largest{"GetStatistics", statistics.SerializeAsString()};
  }
  if (options.kind == "points") return Largest{"ReadPoints", MostPoints(options).SerializeAsString()};
  if (options.kind == "steps") {
    pb::GetDatasetRequest steps;
    steps.set_dataset(options.dataset);
    steps.set_page_size(UINT32_MAX);
    return Largest{"GetDataset", steps.SerializeAsString()};
  }
  if (options.kind == "watch") {
    pb::WatchStepsRequest watch;
    watch.set_dataset(options.dataset);
    return Largest{"WatchSteps", watch.SerializeAsString(), std::chrono::seconds(2)};
  }
  if (options.kind == "list") {
    pb::ListDatasetsRequest list;
    list.set_page_size(UINT32_MAX);
    return Largest{"ListDatasets", list.SerializeAsString()};
  }
  return quarry::InvalidArgument("\"{}\" is no kind of request", options.kind);
}

/// Sends one such request from each of many clients, all at once.
quarry::Result<Outcomes> SendLargest(const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const Largest largest, LargestOf(options));
  Options clients = options;
  clients.connections = options.count;
  std::vector<std::future<grpc::Status>> calls;
  for (const auto& channel : Connect(clients)) {
    calls.push_back(std::async(std::launch::async, [channel, &largest] {
      grpc::GenericStub stub(channel);
      return Call(&stub, largest.method, largest.request, largest.moment);
    }));
  }
  Outcomes outcomes;
  for (std::future<grpc::Status>& call : calls) {
    const grpc::Status status = call.get();
    if (++outcomes[status.error_code()] == 1 && !status.ok())
      fmt::print(stderr, "{}: {}\n", static_cast<int>(status.error_code()), status.error_message());
  }
  return outcomes;
}

// --- large questions ---

/// Sends, at once, as many questions with two million fields without a name: they are far larger in memory.
Outcomes SendLargeQuestions(const Options& options) {
  constexpr int kFields = 2'000'000;
  pb::ReadQuery query;
  query.set_dataset(options.dataset);
  pb::PlanReadRequest request;
  *request.mutable_query() = query;
  for (int i = 0; i < kFields; ++i) request.mutable_query()->add_fields("");
  const std::string bytes = request.SerializeAsString();
  Options each = options;
  each.connections = options.count;
  std::mutex mutex;
  Outcomes outcomes;
  std::vector<std::thread> clients;
  for (const auto& channel : Connect(each)) {
    clients.emplace_back([&, channel] {
      grpc::GenericStub stub(channel);
      const grpc::Status status = Call(&stub, "PlanRead", bytes, std::chrono::milliseconds(0));
      const std::lock_guard lock(mutex);
      ++outcomes[status.error_code()];
    });
  }
  for (std::thread& client : clients) client.join();
  return outcomes;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app("hostile_client",
                                   "Clients that no server wishes for. QUARRY_TOKEN says who they are.");
  auto* streams = app.AddCommand("streams", "begins so many reads at once, then takes their answers");
  auto* requests = app.AddCommand("requests", "sends so many requests of changed bytes");
  auto* largest =
      app.AddCommand("largest", "sends the largest request of a kind from so many clients at once");
  auto* questions = app.AddCommand("questions", "sends so many questions of many fields at once");
  for (auto* command : {streams, requests, largest, questions}) {
    command->AddOption("ADDRESS", &options.address, "HOST:PORT, plain text").Required();
    command->AddOption("--dataset", &options.dataset, "name of a dataset").Required();
    command->AddOption("--field", &options.field, "one of its fields").Required();
    command->AddOption("--count", &options.count, "of streams or requests").Positive();
  }
  streams->AddOption("--connections", &options.connections, "that carry them").Positive();
  streams->AddFlag("--take", &options.take, "take answers as they come: streams may wait for one another");
  requests->AddOption("--seed", &options.seed, "another number makes other requests");
  largest
      ->AddOption("--kind", &options.kind, "plan, values, names, samples, patches, statistics, points, ...")
      .Required();
  largest->AddOption("--dims", &options.dims, "of the grid").SeparatedBy(',').Required();
  largest->AddOption("--seed", &options.seed, "another number makes other points");
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    Outcomes outcomes;
    bool right = true;
    if (streams->chosen()) {
      outcomes = OpenStreams(options);
    } else if (largest->chosen()) {
      QUARRY_ASSIGN_OR_RETURN(outcomes, SendLargest(options));
    } else if (questions->chosen()) {
      outcomes = SendLargeQuestions(options);
    } else {
      right = SendRequests(options, &outcomes);
    }
    Print(outcomes);
    return right ? 0 : 1;
  });
}
