#include <gtest/gtest.h>

#include <tuple>

#include "server/http/grpc_web.h"
#include "server/http/request.h"
#include "server/http/syntax.h"

namespace quarry::server::http {
namespace {

TEST(PathOf, DecodesOnce) {
  for (const auto& [target, path] : {std::pair("/", "/"), std::pair("/a/b?c=%2e%2e", "/a/b"),
                                     std::pair("/a%20b", "/a b"), std::pair("/%252e%252e/x", "/%2e%2e/x"),
                                     std::pair("/%c3%A4#f", "/\xc3\xa4"), std::pair("//x", "//x")}) {
    const auto found = PathOf(target);
    ASSERT_TRUE(found.ok()) << target;
    EXPECT_EQ(*found, path);
  }
}

TEST(PathOf, LeadsNowhereElse) {
  for (const std::string target :
       {"",          "x",      "*",    "http://localhost/", "/..",         "/../x",
        "/a/../b",   "/a/..",  "/./a", "/%2e%2e/x",         "/a%2f..%2fb", "/%2E./x",
        "/a\\..\\b", "/a%5cb", "/%00", "/a%0d%0ab",         "/%7f",        "/%",
        "/%4",       "/%zz"})
    EXPECT_EQ(PathOf(target).status().code(), StatusCode::kInvalidArgument) << target;
  EXPECT_EQ(PathOf(std::string("/a\0b", 4)).status().code(), StatusCode::kInvalidArgument);
}

TEST(ParseRange, IsOnePartOrEverything) {
  constexpr std::uint64_t kSize = 100;
  for (const auto& [header, begin, end] :
       {std::tuple("bytes=0-9", 0, 10), std::tuple("bytes=90-", 90, 100), std::tuple("bytes=-5", 95, 100),
        std::tuple("bytes=-500", 0, 100), std::tuple("bytes=99-200", 99, 100),
        std::tuple(" bytes=1 - 2", 1, 3), std::tuple("bytes=100-", 100, 100),
        std::tuple("bytes=200-300", 100, 100), std::tuple("bytes=-0", 100, 100)}) {
    const auto part = ParseRange(header, kSize);
    ASSERT_TRUE(part) << header;
    EXPECT_EQ(part->begin, static_cast<std::uint64_t>(begin)) << header;
    EXPECT_EQ(part->end, static_cast<std::uint64_t>(end)) << header;
  }
  for (const char* header : {"", "bytes", "bytes=", "bytes=-", "bytes=5", "bytes=5-1", "bytes=0-1,3-4",
                             "bytes=a-b", "items=0-1", "bytes=0x1-2", "bytes=9999999999999999999-"})
    EXPECT_FALSE(ParseRange(header, kSize)) << header;
}

TEST(HasTag, ComparesWholeTags) {
  EXPECT_TRUE(HasTag("\"a\"", "\"a\""));
  EXPECT_TRUE(HasTag(" \"b\" , W/\"a\"", "\"a\""));
  EXPECT_TRUE(HasTag("*", "\"a\""));
  EXPECT_FALSE(HasTag("", "\"a\""));
  EXPECT_FALSE(HasTag("a", "\"a\""));
  EXPECT_FALSE(HasTag("\"ab\"", "\"a\""));
}

TEST(TakesGzip, UnlessItIsRefused) {
  for (const char* header : {"gzip", "br, GZIP;q=0.5", "*", "gzip;q=1"})
    EXPECT_TRUE(TakesGzip(header)) << header;
  for (const char* header : {"", "br", "gzip;q=0", "gzip;q=0.000", "gzipped"})
    EXPECT_FALSE(TakesGzip(header)) << header;
}

TEST(IsOwnName, IsNobodyElses) {
  for (const char* header : {"localhost", "LocalHost:80", "127.0.0.1:8080", "[::1]:80", "[::1]",
                             "a.localhost", "localhost.", "127.1.2.3"})
    EXPECT_TRUE(IsOwnName(HostOf(header))) << header;
  for (const char* header : {"", "example.org", "localhost.example.org", "127.0.0.1.example.org",
                             "xlocalhost", "0.0.0.0", "192.168.0.1", "[::2]:80", "127.0.0.1@example.org"})
    EXPECT_FALSE(IsOwnName(HostOf(header))) << header;
}

TEST(IsOrigin, HasNoPath) {
  for (const char* text : {"https://example.org", "http://localhost:5173", "http://[::1]:80"})
    EXPECT_TRUE(IsOrigin(text)) << text;
  for (const char* text : {"", "null", "example.org", "https://", "https://a/", "ftp://a", "https://a b",
                           "https://user@a", "https://Example.org"})
    EXPECT_FALSE(IsOrigin(text)) << text;
}

TEST(HeadOf, HasOneLineForEachHeader) {
  EXPECT_EQ(HeadOf(404, {{"a", "b"}, {"c", "x\r\nset-cookie: d"}}),
            "HTTP/1.1 404 Not Found\r\na: b\r\nc: x  set-cookie: d\r\n\r\n");
}

TEST(HttpDate, IsThatOfTheStandard) { EXPECT_EQ(HttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT"); }

// ---- gRPC-Web

TEST(Frames, HaveAFlagAndALength) {
  EXPECT_EQ(FrameHead(0x01020304), std::string("\0\1\2\3\4", 5));
  const Frame frame = ParseFrame(std::string("\x80\xff\0\0\1", 5));
  EXPECT_EQ(frame.flags, 0x80);
  EXPECT_EQ(frame.size, 0xff000001U);
}

TEST(TrailerFrame, HasTheStatusAndItsDetails) {
  EXPECT_EQ(TrailerFrame(Status::Ok(), "id"), std::string("\x80\0\0\0\x10grpc-status: 0\r\n", 21));
  const std::string frame = TrailerFrame(NotFound("no \xc3\xa4 100%\n"), "id");
  EXPECT_NE(frame.find("grpc-status: 5\r\ngrpc-message: no %C3%A4 100%25%0A\r\n"), std::string::npos);
  EXPECT_NE(frame.find("grpc-status-details-bin: "), std::string::npos);
  EXPECT_EQ(ParseFrame(frame).size, frame.size() - kFrameHead);
}

TEST(Base64, HasNoPadding) {
  // RFC 4648, section 10.
  for (const auto& [bytes, text] : {std::pair("", ""), std::pair("f", "Zg"), std::pair("fo", "Zm8"),
                                    std::pair("foo", "Zm9v"), std::pair("foobar", "Zm9vYmFy")})
    EXPECT_EQ(Base64(bytes), text);
}

TEST(ParseTimeout, HasAUnit) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(ParseTimeout("250m"), nanoseconds(250'000'000));
  EXPECT_EQ(ParseTimeout("1H"), nanoseconds(3'600'000'000'000));
  EXPECT_EQ(ParseTimeout("7n"), nanoseconds(7));
  EXPECT_GT(ParseTimeout("99999999H"), nanoseconds(0)) << "more than fit";
  for (const char* text : {"", "m", "250", "-1S", "1.5S", "123456789m", "1x", " 1S"})
    EXPECT_FALSE(ParseTimeout(text)) << text;
}

TEST(IsGrpcWeb, IsBinary) {
  EXPECT_TRUE(IsGrpcWeb("application/grpc-web+proto"));
  EXPECT_TRUE(IsGrpcWeb("application/grpc-web; charset=x"));
  for (const char* text : {"", "application/grpc", "application/grpc-web-text", "application/grpc-webx"})
    EXPECT_FALSE(IsGrpcWeb(text)) << text;
}

// ---- Requests

/// Byte by byte, or as many at a time. @returns how many of them are of the request, or nothing
std::optional<std::size_t> Feed(Request* request, const std::string& bytes, std::size_t at_a_time) {
  std::string input;
  std::size_t used = 0;
  for (std::size_t i = 0; i < bytes.size() && !request->is_done(); i += at_a_time) {
    input += bytes.substr(i, at_a_time);
    while (true) {
      const auto more = request->Put(input);
      if (!more.ok()) return std::nullopt;
      used += *more;
      input.erase(0, *more);
      if (*more == 0 || request->is_done()) break;
    }
  }
  return used;
}

TEST(Request, ComesInAnyParts) {
  const std::string head =
      "POST /x?y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n";
  const std::string body = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
  for (const std::size_t at_a_time : {1, 2, 7, 1000}) {
    Request request;
    const auto used = Feed(&request, head + body + "GET /", at_a_time);
    ASSERT_TRUE(used && request.is_done()) << at_a_time;
    EXPECT_EQ(*used, head.size() + body.size());
    EXPECT_EQ(request.method(), "POST");
    EXPECT_EQ(request.target(), "/x?y");
    EXPECT_EQ(request.Header("host"), "a");
    EXPECT_EQ(request.Count("X-a"), 2U);
    EXPECT_FALSE(request.Header("none"));
    EXPECT_TRUE(request.keep_alive());
    EXPECT_EQ(request.body(), "abcde");
  }
}

TEST(Request, HasAHeadOfBoundedLength) {
  const std::string many(kMostHead, 'y');
  std::string shorts;
  for (std::size_t i = 0; i < kMostHead / 4; ++i) shorts += "x: 1\r\n";
  for (const std::string& rest : {"x: " + many, shorts, many}) {
    for (const std::size_t at_a_time : {100, 16384, 1 << 20}) {
      Request request;
      EXPECT_FALSE(Feed(&request, "GET / HTTP/1.1\r\n" + rest, at_a_time)) << at_a_time;
    }
  }
  Request fits;
  EXPECT_TRUE(Feed(&fits, "GET / HTTP/1.1\r\nx: " + many.substr(100) + "\r\n\r\n", 1000));
  EXPECT_TRUE(fits.is_done());
}

TEST(Request, HasABodyOfBoundedLength) {
  for (const std::string announced : {"Content-Length: 11", "Transfer-Encoding: chunked"}) {
    for (const std::uint64_t most : {10, 11}) {
      Request request;
      const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n" + announced + "\r\n\r\n";
      ASSERT_EQ(Feed(&request, head, 1000), head.size());
      request.LimitBody(most);
      const bool chunked = announced.starts_with("T");
      const auto used = Feed(&request, chunked ? "b\r\n01234567890\r\n0\r\n\r\n" : "01234567890", 1000);
      EXPECT_EQ(used.has_value(), most == 11) << announced;
      EXPECT_LE(request.body().size(), most);
    }
  }
}

TEST(Request, HasLittleBetweenThePartsOfItsBody) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string endless(kMostFraming + 1, 'x');
  std::string small_chunks;
  for (std::size_t i = 0; i < kMostFraming; ++i) small_chunks += "1\r\nx\r\n";
  std::string trailers = "0\r\n";
  for (std::size_t i = 0; i < kMostFraming / 4; ++i) trailers += "x: y\r\n";
  for (const std::string& body : {"1;" + endless, endless, small_chunks, trailers, "0\r\nx: " + endless}) {
    for (const std::size_t at_a_time : {100, 16384, 1 << 20}) {
      Request request;
      EXPECT_FALSE(Feed(&request, head + body, at_a_time)) << body.substr(0, 10) << " " << at_a_time;
      EXPECT_LE(request.body().size(), small_chunks.size());
    }
  }
  Request fits;
  const std::string large = "100000\r\n" + std::string(1 << 20, 'y') + "\r\n";
  EXPECT_TRUE(
      Feed(&fits, head + large + large + "1;" + endless.substr(1000) + "\r\nz\r\n0\r\nx: y\r\n\r\n", 10'000));
  EXPECT_TRUE(fits.is_done());
}

/// RFC 9112, 6.1 and 6.3.
TEST(Request, HasNoTransferCodingButChunked) {
  const auto code_of = [](const std::string& version, const std::string& headers) {
    Request request;
    const auto used = request.Put("POST / HTTP/" + version + "\r\nHost: a\r\n" + headers + "\r\n\r\n");
    return used.ok() ? StatusCode::kOk : used.status().code();
  };
  for (const char* headers :
       {"Transfer-Encoding: chunked", "transfer-encoding:CHUNKED", "Transfer-Encoding: \tChunked "})
    EXPECT_EQ(code_of("1.1", headers), StatusCode::kOk) << headers;
  EXPECT_EQ(code_of("1.1", "Transfer-Encoding: gzip, chunked"), StatusCode::kUnimplemented);
  EXPECT_EQ(code_of("1.1", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
            StatusCode::kUnimplemented);
  for (const char* headers :
       {"Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity", "Transfer-Encoding:", "Transfer-Encoding: chunked,",
        "Transfer-Encoding: \x0b"
        "chunked"})
    EXPECT_EQ(code_of("1.1", headers), StatusCode::kInvalidArgument) << headers;
  EXPECT_EQ(code_of("1.0", "Transfer-Encoding: chunked"), StatusCode::kInvalidArgument);
}

TEST(Request, BeginsWhereNobodyDisagrees) {
  for (const std::string headers :
       {"Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: -5", "Content-Length: 5 5", "Content-Length : 5", "no colon",
        "Content-Length: 0x5"}) {
    Request request;
    EXPECT_FALSE(Feed(&request, "POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n\r\n", 1000)) << headers;
  }
}

}  // namespace
}  // namespace quarry::server::http
