// Speed of gRPC alone: a server that streams bytes out of its memory, and a client that copies them into one
// array. No service definition, no protobuf: messages are handed to gRPC as slices of the server's buffer, so
// nothing is encoded or copied before the transport. The upper bound that run.py compares Quarry with.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <cstring>

#include "benchmarks/serve/conversation.h"
#include "quarry/base/endian.h"
#include "quarry/base/memory.h"
#include "quarry/base/units.h"
#include "quarry/command_line/command_line.h"

namespace {

using quarry::Result;
using quarry::Status;
using quarry::serve_bench::Json;
using quarry::serve_bench::Now;

/// A request: bytes in all, and in each message.
struct Wish {
  std::uint64_t bytes = 0;
  std::uint64_t message_bytes = 0;
};

grpc::ByteBuffer ToBuffer(const Wish& wish) {
  const grpc::Slice slice(&wish, sizeof(wish));
  return {&slice, 1};
}

/// Sends the requested bytes out of one buffer.
class Stream final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Stream(const quarry::Bytes* source) : source_(source) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    grpc::Slice request;
    if (!ok || !request_.DumpToSingleSlice(&request).ok() || request.size() != sizeof(wish_)) {
      Finish({grpc::StatusCode::INVALID_ARGUMENT, "no request"});
      return;
    }
    std::memcpy(&wish_, request.begin(), sizeof(wish_));
    if (wish_.bytes > source_->size() || wish_.message_bytes == 0) {
      Finish({grpc::StatusCode::OUT_OF_RANGE, "start the server with more --bytes"});
      return;
    }
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      Finish({grpc::StatusCode::CANCELLED, "the client has gone"});
    }
  }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    const std::uint64_t size = std::min(wish_.message_bytes, wish_.bytes - sent_);
    if (size == 0) {
      Finish(grpc::Status::OK);
      return;
    }
    const grpc::Slice slice(source_->data() + sent_, size, grpc::Slice::STATIC_SLICE);
    message_ = grpc::ByteBuffer(&slice, 1);
    sent_ += size;
    StartWrite(&message_);
  }

  const quarry::Bytes* source_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer message_;
  Wish wish_;
  std::uint64_t sent_ = 0;
};

class StreamService final : public grpc::CallbackGenericService {
 public:
  explicit StreamService(const quarry::Bytes* source) : source_(source) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Stream(source_);  // NOLINT: deletes itself in OnDone
  }

 private:
  const quarry::Bytes* source_;
};

Status Serve(std::uint64_t bytes) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  quarry::Bytes source(bytes);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 2654435761U >> 13);

  StreamService service(&source);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) return quarry::InternalError("cannot listen on the loopback interface");
  std::cout << "listening on 127.0.0.1:" << port << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return Status::Ok();
}

/// One stream after the other on one connection.
class Client {
 public:
  explicit Client(const std::string& address) : stub_(NewChannel(address)) {}

  /// @param[out] target  of wish.bytes
  Status Fetch(const Wish& wish, quarry::Bytes* target) {
    grpc::ClientContext context;
    const auto call = stub_.PrepareCall(&context, "/quarry.benchmark.Raw/Read", &queue_);
    call->StartCall(nullptr);
    bool ok = Wait();
    if (ok) {
      call->WriteLast(ToBuffer(wish), grpc::WriteOptions(), nullptr);
      ok = Wait();
    }
    std::uint64_t received = 0;
    grpc::ByteBuffer message;
    std::vector<grpc::Slice> slices;
    while (ok) {
      call->Read(&message, nullptr);
      if (!Wait()) break;
      slices.clear();
      if (!message.Dump(&slices).ok() || message.Length() > target->size() - received) break;
      for (const grpc::Slice& slice : slices) {
        std::memcpy(target->data() + received, slice.begin(), slice.size());
        received += slice.size();
      }
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    Wait();
    if (status.ok() && received == wish.bytes) return Status::Ok();
    return quarry::InternalError("{} of {} bytes have come: {}", received, wish.bytes,
                                 status.error_message());
  }

 private:
  static std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 << 20);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

Result<Json> Ask(Client* client, const Json& question) {
  Wish wish{.message_bytes = question.value("message_bytes", std::uint64_t{1} << 20)};
  std::vector<double> seconds;
  const double begin = Now();
  for (const Json& bytes : question.value("bytes", Json::array())) {
    wish.bytes = bytes.get<std::uint64_t>();
    const double asked = Now();
    quarry::Bytes target(wish.bytes);  // a fresh one each time, as an answer of Quarry's client is
    QUARRY_RETURN_IF_ERROR(client->Fetch(wish, &target));
    seconds.push_back(Now() - asked);
  }
  return Json{{"seconds", seconds}, {"begin", begin}, {"end", Now()}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string address;
  std::string bytes;
  quarry::command_line::Parser app("raw_stream", "Streams bytes over gRPC, and does nothing else.");
  app.AddOption("ADDRESS", &address, "of a server; the lengths of streams come on stdin");
  app.AddOption("--serve", &bytes, "be the server, with this much memory to send from");
  app.SetFooter(
      "Example:\n  raw_stream --serve 64MiB          prints \"listening on ADDRESS\"\n"
      "  echo '{\"bytes\": [1048576, 67108864], \"message_bytes\": 1048576}' | raw_stream ADDRESS");
  quarry::KeepFreedMemory();
  return RunProgram(&app, argc, argv, [&]() -> Result<int> {
    if (!bytes.empty()) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, quarry::ParseBytes(bytes));
      QUARRY_RETURN_IF_ERROR(Serve(size));
      return 0;
    }
    if (address.empty())
      return quarry::InvalidArgument("give the address of a server, or --serve; see --help");
    Client client(address);
    quarry::serve_bench::Converse([&](const Json& question) { return Ask(&client, question); });
    return 0;
  });
}
