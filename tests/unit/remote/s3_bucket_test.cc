// URLs of keys, lists and errors of S3 stores.
#include "quarry/remote/s3_bucket.h"

#include <gtest/gtest.h>

#include <map>
#include <span>

namespace quarry::remote {
namespace {

Surroundings With(std::map<std::string, std::string> variables) {
  Surroundings world;
  world.variable = [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  world.file = [](const std::string& path) -> Result<std::string> { return NotFound("\"{}\"", path); };
  return world;
}

ByteSpan BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

S3Bucket Bucket(const char* url, std::map<std::string, std::string> variables = {}) {
  const auto bucket = BucketOf(*ParseUrl(url), With(std::move(variables)));
  EXPECT_TRUE(bucket.ok()) << bucket.status().message();
  return bucket.ok() ? *bucket : S3Bucket();
}

std::string UrlOf(const S3Bucket& bucket, const std::string& key) {
  return S3Request(bucket, "GET", key, {}, [] { return Credentials(); }).url;
}

TEST(S3Bucket, IsAHostAtAmazonAndAFolderAtOthers) {
  EXPECT_EQ(UrlOf(Bucket("s3://data/x"), "a b"), "https://data.s3.us-east-1.amazonaws.com/a%20b");
  EXPECT_EQ(UrlOf(Bucket("s3://data/x", {{"AWS_REGION", "eu-west-1"}}), "a"),
            "https://data.s3.eu-west-1.amazonaws.com/a");
  EXPECT_EQ(UrlOf(Bucket("s3://my.data/x"), "a"), "https://s3.us-east-1.amazonaws.com/my.data/a");
  EXPECT_EQ(UrlOf(Bucket("s3://data/x", {{"AWS_ENDPOINT_URL", "http://127.0.0.1:7070/"}}), "a"),
            "http://127.0.0.1:7070/data/a");
  EXPECT_EQ(UrlOf(Bucket("s3://data/x", {{"AWS_ENDPOINT_URL_S3", "https://store.example"},
                                         {"AWS_ENDPOINT_URL", "https://other"},
                                         {"QUARRY_S3_ADDRESSING", "host"}}),
                  "a"),
            "https://data.store.example/a");
}

TEST(S3Bucket, WrongVariablesAreRefusedByName) {
  const auto url = *ParseUrl("s3://data/x");
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"AWS_ENDPOINT_URL", "store.example"},
                                          {"AWS_ENDPOINT_URL_S3", "https://store/path"},
                                          {"QUARRY_S3_ADDRESSING", "virtual"}}) {
    const auto bucket = BucketOf(url, With({{name, value}}));
    EXPECT_EQ(bucket.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(bucket.status().message().find(name), std::string::npos);
  }
}

TEST(S3Bucket, RequesterPaysIsSent) {
  const HttpRequest request = S3Request(Bucket("s3://data/x", {{"AWS_REQUEST_PAYER", "requester"}}), "GET",
                                        "a", {}, [] { return Credentials(); });
  EXPECT_EQ(request.headers, (Headers{{"x-amz-request-payer", "requester"}}));
}

TEST(S3List, NamesObjectsAndFoldersBehindThePrefix) {
  const std::string xml =
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t/2</"
      "NextContinuationToken>"
      "<Contents><Key>a%20b/</Key><Size>0</Size></Contents>"
      "<Contents><Key>a%20b/c%2Bd</Key><Size>12</Size><ETag>\"e\"</ETag></Contents>"
      "<CommonPrefixes><Prefix>a%20b/000001/</Prefix></CommonPrefixes></ListBucketResult>";
  const auto page = ParseList(BytesOf(xml), "a b/");
  ASSERT_TRUE(page.ok()) << page.status().message();
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].name, "c+d");
  EXPECT_EQ(page->objects[0].size, 12U);
  EXPECT_EQ(page->objects[0].tag, "\"e\"");
  EXPECT_EQ(page->folders, std::vector<std::string>{"000001"});
  EXPECT_EQ(page->next, "t/2");
}

/// As s3s-fs 0.14.1 answers.
TEST(S3List, MayClaimThatItsNamesAreEscaped) {
  const std::string xml =
      "<ListBucketResult><Prefix>a b/</Prefix><EncodingType>url</EncodingType>"
      "<Contents><Key>a b/c+d%20</Key></Contents></ListBucketResult>";
  const auto page = ParseList(BytesOf(xml), "a b/");
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(page->objects.at(0).name, "c+d%20");
}

TEST(S3List, OfAStoreThatLiesIsRefused) {
  for (const char* xml :
       {"", "<html/>", "<ListBucketResult><Contents><Key>other/a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_FALSE(ParseList(BytesOf(xml), "p/").ok()) << xml;
  }
}

/// A document whose entities would be a gigabyte costs what it has of bytes.
TEST(S3List, DoesNotExpandEntities) {
  std::string xml = "<!DOCTYPE b [<!ENTITY a0 \"aaaaaaaaaa\">";
  for (int i = 1; i < 10; ++i)
    xml += fmt::format("<!ENTITY a{} \"&a{};&a{};&a{};&a{};&a{};&a{};&a{};&a{};&a{};&a{};\">", i, i - 1,
                       i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
  xml += "]><ListBucketResult><Contents><Key>p/&a9;</Key></Contents></ListBucketResult>";
  const auto page = ParseList(BytesOf(xml), "p/");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->objects.at(0).name, "&a9;");
}

TEST(S3Error, SaysWhatToDo) {
  HttpReply reply;
  reply.status = 403;
  const std::string xml = "<Error><Code>AccessDenied</Code><Message>Access\nDenied</Message></Error>";
  reply.body.assign(BytesOf(xml).begin(), BytesOf(xml).end());
  Credentials none;
  none.source = "none in X";
  const Status anonymous = S3Status(reply, "s3://b/k", none);
  EXPECT_EQ(anonymous.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(anonymous.message().find("AWS_PROFILE"), std::string::npos);
  EXPECT_NE(anonymous.message().find("Access Denied"), std::string::npos);
  const Credentials keys{"id", "very-secret", "token-secret", {}, "the profile \"p\""};
  const Status denied = S3Status(reply, "s3://b/k", keys);
  EXPECT_NE(denied.message().find("the profile \"p\""), std::string::npos);
  EXPECT_EQ(denied.message().find("secret"), std::string::npos);
  reply.status = 404;
  EXPECT_EQ(S3Status(reply, "s3://b/k", keys).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quarry::remote
