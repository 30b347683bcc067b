#include "server/options.h"

namespace quarry::server {
namespace {

void DeclareData(command_line::Parser* app, Options* options) {
  app->AddOption("ROOT,--root", &options->root,
                 "directory of the datasets, or its URL in an object store, s3://BUCKET/FOLDER; or "
                 "https://HOST/NAME.quarry of one dataset on a web server")
      .Path()
      .Required();
  app->AddFlag("--allow-http", &options->allow_http,
               "take a ROOT http:// of another machine: plain text, which anybody on the way can read and "
               "change");
  app->AddOption(
         "--cache", &options->cache,
         "for a ROOT at a URL: folder that keeps what is read, for the next time and the next server; "
         "default: none, as with \"\"")
      .Path()
      .Environment("QUARRY_CACHE");
  app->AddOption("--cache-size", &options->cache_size,
                 "bytes of the disk that --cache may take, for example 50GiB; default: 10GiB")
      .Environment("QUARRY_CACHE_SIZE");
  app->AddOption("--index", &options->index,
                 "directory with an index folder NAME for each dataset; default: NAME.quarry/index")
      .Path();
  app->AddOption("--scratch", &options->scratch,
                 "local directory for private copies of indices; default: the system's")
      .Path();
  app->AddOption("--follow-symlinks", &options->follow_symlinks,
                 "which symbolic links below ROOT are followed: no, owner (those whose owner owns what they "
                 "lead to), or yes; default: owner")
      .OneOf({"no", "owner", "yes"});
  app->AddOption("--watch", &options->watch_seconds,
                 "seconds between two looks at a dataset that a client watches; default: 1")
      .Between(0.01, 3600.0);
}

void DeclareConnections(command_line::Parser* app, Options* options) {
  app->SetHeading("Connections");
  app->AddOption("--listen", &options->listen.address,
                 "address and port; port 0 picks a free one; default: 127.0.0.1:50051");
  app->AddOption("--http", &options->http,
                 "address and port for web browsers: the viewer, gRPC-Web and Zarr; port 0 picks a free one; "
                 "default: none");
  app->AddOption("--http-page", &options->page,
                 "folder with the web page of --http; default: the viewer that was installed with the server")
      .Path()
      .Needs("--http");
  app->AddOption(
         "--http-cors", &options->cors,
         "a web site whose pages may ask too, like https://example.org, or * for all; may be repeated; "
         "default: none")
      .Needs("--http");
  app->AddOption(
         "--http-connect", &options->connect,
         "a web server or bucket whose datasets the page may read, like https://data.example.org; may be "
         "repeated; default: none")
      .Needs("--http");
  command_line::Option certificate =
      app->AddOption(
             "--tls-cert", &options->tls.certificate,
             "PEM file of the TLS certificate and its chain; clients write grpcs://; SIGHUP reads it and the "
             "other files again")
          .Path();
  app->AddOption("--tls-key", &options->tls.key, "the key of --tls-cert, a PEM file without password")
      .Path()
      .Needs("--tls-cert");
  certificate.Needs("--tls-key");
  app->AddOption("--tls-client-ca", &options->tls.client_authority,
                 "PEM file of an authority: accept only clients with a certificate of it")
      .Path()
      .Needs("--tls-cert");
  app->AddFlag("--insecure", &options->listen.insecure,
               "allow plain text to other machines, for --listen and --http without TLS and for --metrics");
  app->AddOption("--tokens", &options->tokens,
                 "file with lines NAME sha256:HEX DATASET...: require a token; SIGHUP reads it again")
      .Path();
}

void DeclareResources(command_line::Parser* app, Options* options) {
  app->SetHeading("Memory and threads");
  app->AddOption("--memory", &options->memory, "most memory for reads and decoded patches; default: 2GiB");
  app->AddOption("--threads", &options->threads,
                 "decoding threads; default: one per processor that the server may use")
      .Between(0, 1024);
}

/// Few operators change these: --help-limits shows them.
void DeclareLimits(command_line::Parser* app, Options* options) {
  const std::string heading = "Limits";
  app->SetHeading(heading);
  app->AddOption(
         "--connections", &options->connections,
         "most connections of each port at a time, half of them from one address; default: 1000, or half of "
         "the open files that the system allows (ulimit -n) for all ports if that is less")
      .Between(1, 1'000'000);
  app->AddOption("--streams", &options->listen.streams,
                 "most calls of one connection at a time; default: 100")
      .Between(1, 1'000'000);
  app->AddOption("--queue", &options->queue,
                 "most reads that wait for memory; more are refused; default: 256")
      .Between(0, 1'000'000);
  app->AddOption("--calls", &options->calls, "most calls that run at a time; more are refused; default: 1000")
      .Between(1, 1'000'000);
  app->AddOption("--client-calls", &options->client_calls,
                 "most calls that run at a time for one client: a token, a certificate, or else an address; "
                 "default: half of --calls")
      .Between(1, 1'000'000);
  app->AddOption("--client-rate", &options->client_rate,
                 "most calls a second of one client, in the long run, while others call too; 0: no limit; "
                 "default: 1000")
      .Between(0.0, 1e9);
  app->AddOption("--client-bytes", &options->client_bytes,
                 "most payload or samples, whichever is more, of the running reads of one client, like 8GiB; "
                 "default: no limit");
  app->AddOption("--deadline", &options->deadline_seconds,
                 "seconds that an answer may take; 0: no limit; default: 3600")
      .Between(0.0, 1e7);
  app->AddOption("--stall", &options->stall_seconds,
                 "seconds after which a client that takes nothing is cut off; 0: never; default: 60")
      .Between(0.0, 1e7);
  app->AddOption("--max-request-bytes", &options->max_request_bytes,
                 "most payload that one read may need, and most samples that it may send, like 4GiB; "
                 "default: no limit");
  app->AddOption("--drain", &options->drain_seconds,
                 "seconds that running reads may take after SIGTERM; default: 30")
      .Between(0, 3600);
  app->AddHelp("--help-limits", heading,
               "print the options that limit connections, calls, requests and their times; the defaults suit "
               "most servers");
}

void DeclareObservation(command_line::Parser* app, Options* options) {
  app->SetHeading("Observation");
  app->AddOption("--metrics", &options->metrics,
                 "address and port for Prometheus, http://HOST:PORT/metrics; default: none");
  app->AddOption("--log-level", &options->log_level, "debug, info, warn or error; default: info")
      .OneOf({"debug", "info", "warn", "error"});
  app->AddOption("--log-format", &options->log_format, "text, or json: one object per line; default: text")
      .OneOf({"text", "json"});
  app->AddFlag("--quiet", &options->quiet, "the same as --log-level warn").Excludes("--log-level");
}

}  // namespace

void DeclareOptions(command_line::Parser* app, Options* options) {
  DeclareData(app, options);
  DeclareConnections(app, options);
  DeclareResources(app, options);
  DeclareLimits(app, options);
  DeclareObservation(app, options);
  app->AddConfigFile("--config", "TOML file with these options, like root = \"/data/runs\"");
  app->SetFooter(
      "Examples:\n  quarry-server /data/runs --listen 127.0.0.1:50051 --memory 4GiB\n  quarry-server "
      "s3://bucket/runs --http 127.0.0.1:8080\nPrints \"listening on "
      "ADDRESS:PORT\" to stdout when it is ready. SIGTERM drains and ends with exit code 0; a second one "
      "does not wait.");
}

}  // namespace quarry::server
