"""Reads datasets from versitygw, a real S3 server, with connections that stay open and without. scripts/object-store.sh
builds and names it: QUARRY_S3_SERVER."""

import datetime
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
import unittest
import urllib.parse

import quarry_testing as qt
import test_object_stores

KEY, SECRET, REGION, BUCKET = "AKTEST", "secret/of the+test", "us-east-1", "bucket"


def put(host, key, data):
    """Makes an object, or with an empty key the bucket. Files laid into the server's folder would have no ETag."""
    path = f"/{BUCKET}" + ("/" + urllib.parse.quote(key, safe="/-._~") if key else "")
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(data).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"PUT\n{path}\n\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{time}\n\n{names}\n{digest}"
    scope = f"{time[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    secret = f"AWS4{SECRET}".encode()
    for part in (time[:8], REGION, "s3", "aws4_request", text):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    connection = http.client.HTTPConnection(host)
    connection.request("PUT", path, body=data, headers={
        "x-amz-content-sha256": digest, "x-amz-date": time,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={secret.hex()}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200:
        raise AssertionError(f"PUT {path}: {answer.status} {text}")


class Gateway:
    """versitygw over a new folder."""

    def __init__(self, folder, *options):
        folder.mkdir()
        with socket.socket() as free:  # it says no port of its own
            free.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:{}".format(free.getsockname()[1])
        self.process = subprocess.Popen(
            [os.environ["QUARRY_S3_SERVER"], *options, "-q", "--port", self.host, "posix", str(folder)],
            env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}, stdout=subprocess.DEVNULL)

    def __enter__(self):
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"versitygw ended with {self.process.returncode}")
            try:
                put(self.host, "", b"")
                return self
            except ConnectionRefusedError:
                continue

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()

    def upload(self, folder, prefix):
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                put(self.host, f"{prefix}/{file.relative_to(folder)}", file.read_bytes())

    def environment(self):
        return {"AWS_ENDPOINT_URL": f"http://{self.host}", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": REGION}


class Versitygw(test_object_stores.Datasets):
    def test_every_answer_is_that_of_the_directory(self):
        for options in (["--keep-alive"], []):
            with self.subTest(options=options), Gateway(self.tmp / f"gateway{len(options)}", *options) as gateway:
                gateway.upload(self.path, f"{test_object_stores.FOLDER}/turb.quarry")
                for question in self.questions():
                    self.assertEqual(self.bytes_of(self.target, *question, env=gateway.environment()),
                                     self.bytes_of(self.path, *question))
                self.assert_same_reports(self.target, gateway.environment())

    def test_packs(self):
        wanted = self.bytes_of(self.path, "--step", 2)
        qt.succeed("quarry", "pack", self.path)
        with Gateway(self.tmp / "gateway", "--keep-alive") as gateway:
            gateway.upload(self.path, f"{test_object_stores.FOLDER}/turb.quarry")
            self.assertEqual(self.bytes_of(self.target, "--step", 2, env=gateway.environment()), wanted)


if __name__ == "__main__":
    unittest.main()
