"""Reads datasets from nginx, by HTTP/1.1 and by HTTP/2 over TLS. scripts/object-store.sh unpacks and names it:
QUARRY_NGINX."""

import collections
import os
import socket
import subprocess
import unittest

import object_stores
import test_object_stores

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/errors.log;
events {{ worker_connections 256; }}
http {{
  log_format asked "$server_protocol $status $connection";
  access_log {folder}/asked.log asked;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} {listen};
    {certificate}
    root "{root}";
  }}
}}
"""


class Nginx:
    """nginx over a folder, with TLS and HTTP/2 or without both."""

    def __init__(self, folder, root, *, tls):
        self.folder, self.root, self.tls = folder, root, tls
        folder.mkdir()

    def certificate(self):
        object_stores.make_certificate(self.folder)
        return f"ssl_certificate {self.folder}/cert.pem; ssl_certificate_key {self.folder}/key.pem;"

    def start(self):
        with socket.socket() as free:  # nginx says no port of its own
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        certificate = self.certificate() if self.tls else ""
        configuration = self.folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=self.folder, port=port, root=self.root, certificate=certificate,
                                                      listen="ssl http2" if self.tls else ""))
        self.process = subprocess.Popen([os.environ["QUARRY_NGINX"], "-c", configuration, "-e", self.folder / "errors.log", "-p", self.folder])
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{port}"
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return True
            except ConnectionRefusedError:
                continue
        return False  # somebody else took the port

    def __enter__(self):
        for _ in range(5):
            if self.start():
                return self
        raise AssertionError((self.folder / "errors.log").read_text())

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()

    def environment(self):
        return {"AWS_CA_BUNDLE": str(self.folder / "cert.pem")} if self.tls else {}

    def asked(self):
        """Requests by protocol, and the connections that they came on. Every answer must be 200 or 206."""
        lines = [line.split() for line in (self.folder / "asked.log").read_text().splitlines()]
        assert {status for _, status, _ in lines} <= {"200", "206", "404"}, lines
        return collections.Counter(line[0] for line in lines), {line[2] for line in lines}


class BehindNginx(test_object_stores.Datasets):
    def assert_same(self, nginx, protocol):
        target = f"{nginx.url}/turb.quarry"
        for question in self.questions():
            with self.subTest(question=question):
                self.assertEqual(self.bytes_of(target, *question, env=nginx.environment()), self.bytes_of(self.path, *question))
        self.assert_same_reports(target, nginx.environment())
        protocols, connections = nginx.asked()
        self.assertEqual(set(protocols), {protocol})
        return protocols[protocol], len(connections)

    def test_http_1(self):
        with Nginx(self.tmp / "nginx", self.path.parent, tls=False) as nginx:
            self.assert_same(nginx, "HTTP/1.1")

    def test_http_2_over_tls(self):
        with Nginx(self.tmp / "nginx", self.path.parent, tls=True) as nginx:
            requests, connections = self.assert_same(nginx, "HTTP/2.0")
            programs = len(self.questions()) + 4
            self.assertLessEqual(connections, 2 * programs, "ranges are streams of one connection")
            self.assertGreater(requests, connections)


if __name__ == "__main__":
    unittest.main()
