// Signatures of Amazon's own examples (Amazon S3 API Reference, "Authenticating Requests: Using the
// Authorization Header"), and URLs.
#include "quarry/remote/sign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "quarry/remote/url.h"

namespace quarry::remote {
namespace {

const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", {}, ""};
// 2013-05-24 00:00:00 UTC
const auto kThen = std::chrono::system_clock::from_time_t(1369353600);

std::string SignatureOf(const ToSign& request, const Credentials& credentials = kExample) {
  const Headers sent = Sign(request, credentials, "us-east-1", "s3", kThen);
  const auto found =
      std::find_if(sent.begin(), sent.end(), [](const auto& h) { return h.first == "authorization"; });
  if (found == sent.end()) return "";
  return found->second.substr(found->second.find("Signature=") + 10);
}

ToSign Request(std::string method, std::string path) {
  ToSign request;
  request.method = std::move(method);
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = std::move(path);
  return request;
}

TEST(Sign, EqualsTheExampleOfARange) {
  ToSign request = Request("GET", "/test.txt");
  request.headers = {{"range", "bytes=0-9"}};
  EXPECT_EQ(SignatureOf(request), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Sign, EqualsTheExampleOfAnUpload) {
  ToSign request = Request("PUT", EscapePath("/test$file.text"));
  const std::string text = "Welcome to Amazon S3.";
  request.headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  request.body = std::as_bytes(std::span(text));
  EXPECT_EQ(SignatureOf(request), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(Sign, EqualsTheExampleOfAQueryWithoutValue) {
  ToSign request = Request("GET", "/");
  request.query = {{"lifecycle", ""}};
  EXPECT_EQ(SignatureOf(request), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(Sign, EqualsTheExampleOfAListWhateverTheOrderOfItsQuery) {
  ToSign request = Request("GET", "/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_EQ(SignatureOf(request), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Sign, SendsAndCoversTheTokenOfASession) {
  Credentials session = kExample;
  session.token = "token";
  const Headers sent = Sign(Request("GET", "/test.txt"), session, "us-east-1", "s3", kThen);
  EXPECT_NE(std::find(sent.begin(), sent.end(),
                      std::pair<std::string, std::string>("x-amz-security-token", "token")),
            sent.end());
  EXPECT_NE(sent.back().second.find("x-amz-security-token"), std::string::npos);
  EXPECT_NE(SignatureOf(Request("GET", "/test.txt"), session), SignatureOf(Request("GET", "/test.txt")));
}

TEST(Url, KeepsNamesAndHidesTheQuery) {
  const auto url = ParseUrl("https://account.example:8443/run%2042/a+b.quarry/?sig=secret");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "account.example:8443");
  EXPECT_EQ(url->path, "run 42/a+b.quarry");
  EXPECT_EQ(url->query, "sig=secret");
  EXPECT_EQ(url->Text(), "https://account.example:8443/run 42/a+b.quarry");
}

TEST(Url, OfABucketHasItsNameAsHost) {
  const auto url = ParseUrl("s3://bucket/a/b.quarry");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->scheme, StoreUrl::Scheme::kS3);
  EXPECT_EQ(url->host, "bucket");
  EXPECT_EQ(url->path, "a/b.quarry");
  ASSERT_TRUE(ParseUrl("s3://bucket").ok());
  EXPECT_EQ(ParseUrl("s3://bucket")->path, "");
}

TEST(Url, ThatMayMeanAnotherObjectIsRefused) {
  for (const char* text :
       {"ftp://host/a", "https:///a", "s3://", "https://user:secret@host/a", "https://host/a/../b",
        "https://host/a//b", "https://host/%2e%2e/b", "https://host/a%2", "https://host/a%zz",
        "https://host/a#b", "s3://bucket/a?versionId=secret"}) {
    const auto url = ParseUrl(text);
    EXPECT_EQ(url.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(url.status().message().find("secret"), std::string::npos) << text;
  }
}

TEST(Url, EscapesAllButPlainBytes) {
  EXPECT_EQ(EscapePath("a b/c=d+e:f*(g)\xc3\xa9~"), "a%20b/c%3Dd%2Be%3Af%2A%28g%29%C3%A9~");
  EXPECT_EQ(EscapeValue("a/b"), "a%2Fb");
}

TEST(Url, OfThisMachineIsKnown) {
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:80"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"example.org", "128.0.0.1", "localhost.example.org", "10.0.0.1"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace quarry::remote
