"""Serves a folder over HTTP/1.1 as a web server does, for tests of the page: ranges, CORS, ETags.

Usage: range_server.py FOLDER [--no-ranges] [--no-cors] [--hide-content-range]
Prints the port, and a line for each request that is answered.
"""

import argparse
import hashlib
import http.server
import mimetypes
import pathlib
import re
import sys
import urllib.parse

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--no-ranges", action="store_true")
parser.add_argument("--no-cors", action="store_true")
parser.add_argument("--hide-content-range", action="store_true")
options = parser.parse_args()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, headers, body=b""):
        self.send_response(status)
        if not options.no_cors:
            self.send_header("Access-Control-Allow-Origin", "*")
            shown = "ETag, Content-Length, Accept-Ranges" + ("" if options.hide_content_range else ", Content-Range")
            self.send_header("Access-Control-Expose-Headers", shown)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(body)
            except ConnectionError:  # a page that refuses an answer ends it
                self.close_connection = True
        print(self.command, self.path, self.headers.get("Range", "-"), status, len(body), flush=True)

    def do_OPTIONS(self):
        allow = {"Access-Control-Allow-Methods": "GET, HEAD", "Access-Control-Allow-Headers": "Range, If-Match"}
        self.reply(204, {} if options.no_cors else allow)

    def do_GET(self):
        path = options.folder / urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        if path.is_dir():
            path /= "index.html"
        if not path.is_file():
            return self.reply(404, {})
        body = path.read_bytes()
        headers = {"ETag": '"' + hashlib.sha256(body).hexdigest()[:16] + '"', "Accept-Ranges": "bytes",
                   "Content-Type": mimetypes.guess_type(path.name)[0] or "application/octet-stream"}
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if options.no_ranges or not found:
            return self.reply(200, headers, body)
        begin = int(found[1])
        end = min(len(body), int(found[2]) + 1 if found[2] else len(body))
        if begin >= end:
            return self.reply(416, headers | {"Content-Range": f"bytes */{len(body)}"})
        return self.reply(206, headers | {"Content-Range": f"bytes {begin}-{end - 1}/{len(body)}"}, body[begin:end])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # a page opens many connections at once
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that is closed ends its connections
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
