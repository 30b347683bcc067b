// Requests to the golden dataset over HTTP, for http_target.cc.

#include <fmt/format.h>

#include "quarry/v1/service.pb.h"
#include "server/http/grpc_web.h"
#include "tests/fuzz/seeds.h"

namespace quarry::fuzz {
namespace {

namespace pb = ::quarry::v1;

std::string Get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

std::string Post(const std::string& method, const std::string& headers, const std::string& body) {
  return "POST /quarry.v1.QuarryService/" + method +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/grpc-web+proto\r\n" + headers + "\r\n" +
         body;
}

std::string Chunk(const std::string& content, const std::string& extension = "") {
  return fmt::format("{:x}{}\r\n{}\r\n", content.size(), extension, content);
}

}  // namespace

bool AddRequests(const std::string& folder) {
  Corpus corpus(folder, "http");
  const auto add = [&](const std::string& name, char pieces, const std::string& bytes) {
    corpus.Add(name, std::string(1, pieces) + bytes);
  };
  pb::ReadRequest read;
  read.mutable_query()->set_dataset("golden");
  read.mutable_query()->set_field("smooth");
  read.mutable_query()->set_level(1);
  const std::string message = read.SerializeAsString();
  const std::string question = server::http::FrameHead(message.size()) + message;
  const std::string length = fmt::format("Content-Length: {}\r\n", question.size());
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string middle = question.substr(3, 9);

  add("health", 0, Get("/healthz"));
  add("read", 0, Post("Read", length + "grpc-timeout: 5S\r\n", question));
  add("read_in_pieces", 5, Post("Read", length + "Expect: 100-continue\r\n", question));
  add("read_in_chunks", 3,
      Post("Read", chunked,
           Chunk(question.substr(0, 3)) + Chunk(middle, ";x=\"y\"") + Chunk(question.substr(12)) +
               "0\r\nx-trailer: y\r\n\r\n"));
  add("chunk_without_end", 0, Post("Read", chunked, Chunk(question.substr(0, 9)) + "5;xxxxxxxx"));
  add("list_twice", 2,
      Post("ListDatasets", "Content-Length: 5\r\n", std::string(5, '\0')) +
          Post("ListDatasets", chunked, Chunk(std::string(5, '\0')) + "0\r\n\r\n"));
  add("body_that_nobody_wants", 1,
      "POST /x HTTP/1.1\r\nHost: localhost\r\n" + chunked + "\r\n" + Chunk(std::string(300, 'x')) +
          "0\r\n\r\n" + Get("/healthz"));
  for (const char* coding : {"xchunked", "gzip, chunked", "chunked, identity"})
    add(fmt::format("coding_{}", coding[0] == 'c'   ? "last"
                                 : coding[0] == 'g' ? "first"
                                                    : "none"),
        0, Post("Read", fmt::format("Transfer-Encoding: {}\r\n", coding), Chunk(question) + "0\r\n\r\n"));
  add("zarr_root", 0, Get("/zarr/golden/zarr.json", "If-None-Match: \"x\", *\r\n"));
  add("zarr_chunk", 4,
      Get("/zarr/golden/1/smooth/c/0/0/0/0", "Range: bytes=5-20\r\n") + Get("/zarr/golden.zarr/1/x/c/0"));
  add("zarr_head", 0, "HEAD /zarr/golden/0/y/c/0 HTTP/1.0\r\nRange: bytes=-4\r\n\r\n");
  add("preflight", 0,
      "OPTIONS /quarry.v1.QuarryService/Read HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\n\r\n");
  add("paths", 0, Get("/%2e%2e/x") + Get("/zarr/golden//zarr.json") + Get("/zarr/../golden/c/0"));
  return corpus.ok();
}

}  // namespace quarry::fuzz
