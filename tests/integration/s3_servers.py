"""Reads datasets from S3 servers of others, and copies some there: versitygw, with connections that stay open and
without, or s3s-fs. scripts/object-store.sh builds one and names it: QUARRY_S3_SERVER."""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import unittest
import urllib.parse

import numpy as np
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


PROGRAM = os.environ["QUARRY_S3_SERVER"]
IS_VERSITYGW = os.path.basename(PROGRAM) == "versitygw"
# Ways to start it.
OPTIONS = (["--keep-alive"], []) if IS_VERSITYGW else ([],)


def command_of(host, folder, options):
    if IS_VERSITYGW:
        return [PROGRAM, *options, "-q", "--port", host, "posix", str(folder)]
    name, port = host.split(":")
    return [PROGRAM, "--host", name, "--port", port, "--access-key", KEY, "--secret-key", SECRET, str(folder)]


class Gateway:
    """The server over a new folder."""

    def __init__(self, folder, *options):
        folder.mkdir()
        with socket.socket() as free:  # it says no port of its own
            free.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:{}".format(free.getsockname()[1])
        self.process = subprocess.Popen(command_of(self.host, folder, options), stdout=subprocess.DEVNULL,
                                        env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET})

    def __enter__(self):
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}")
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


class Server(test_object_stores.Datasets):
    def test_every_answer_is_that_of_the_directory(self):
        for options in OPTIONS:
            with self.subTest(options=options), Gateway(self.tmp / f"gateway{len(options)}", *options) as gateway:
                gateway.upload(self.path, f"{test_object_stores.FOLDER}/turb.quarry")
                for question in self.questions():
                    self.assertEqual(self.bytes_of(self.target, *question, env=gateway.environment()),
                                     self.bytes_of(self.path, *question))
                self.assert_same_reports(self.target, gateway.environment())

    def test_a_copy_goes_there_and_back(self):
        for options in OPTIONS:
            with self.subTest(options=options), Gateway(self.tmp / f"gateway{len(options)}", *options) as gateway:
                qt.succeed("quarry", "cp", self.path, self.target, env=gateway.environment())
                self.assert_same_reports(self.target, gateway.environment())
                back = self.tmp / f"back{len(options)}.quarry"
                qt.succeed("quarry", "cp", self.target, back, env=gateway.environment())
                copied, original = ({name: data for name, data in qt.snapshot(folder).items() if data is not None}
                                    for folder in (back, self.path))
                self.assertEqual(copied, original)

    def test_steps_are_added(self):
        for options in OPTIONS:
            with self.subTest(options=options), Gateway(self.tmp / f"gateway{len(options)}", *options) as gateway:
                env = gateway.environment()
                said = qt.succeed("quarry", "cp", self.path, self.target, "--steps", "0:1", env=env).out
                self.assertNotIn("ignores conditions", said)
                qt.succeed("quarry", "cp", self.path, self.target, env=env)
                self.assert_same_reports(self.target, env)

    def test_writing(self):
        """From two ranks in parts, then one step more."""
        dims, inputs = (512, 256, 80), []
        for step in range(2):
            inputs.append(self.tmp / f"{step}.raw")
            samples = dims[0] * dims[1] * dims[2]
            values = np.random.default_rng(1).integers(0, 1 << 32, samples, "u4") if step == 0 else np.arange(samples, dtype="u4")
            values.tofile(inputs[-1])
        target, directory = f"s3://{BUCKET}/runs/new.quarry", self.tmp / "new.quarry"
        with Gateway(self.tmp / "gateway", *OPTIONS[0]) as gateway:
            env = gateway.environment()
            for used, path in ((env, target), ({}, directory)):
                for step, ranks in ((0, 2), (1, 0)):
                    qt.succeed(*qt.mpi_command(ranks, "quarry-write", inputs[step], "--dims", "x".join(map(str, dims)), "--type",
                                               "uint32", "--files", 2, "--field", "n", "--output", path,
                                               *["--append"] * bool(step)), env=used)
            qt.succeed("quarry", "verify", target, env=env)
            self.assertEqual(json.loads(qt.succeed("quarry", "info", target, "--json", env=env).out)["steps"], [0, 1])
            back = self.tmp / "written.quarry"
            qt.succeed("quarry", "cp", target, back, env=env)
            copied, original = ({name: data for name, data in qt.snapshot(folder).items() if data is not None and name != "head"}
                                for folder in (back, directory))
            self.assertEqual(copied, original)

    def test_packs(self):
        if not IS_VERSITYGW:
            return self.assert_packs_are_refused()
        wanted = self.bytes_of(self.path, "--step", 2)
        qt.succeed("quarry", "pack", self.path)
        with Gateway(self.tmp / "gateway", *OPTIONS[0]) as gateway:
            gateway.upload(self.path, f"{test_object_stores.FOLDER}/turb.quarry")
            self.assertEqual(self.bytes_of(self.target, "--step", 2, env=gateway.environment()), wanted)

    def assert_packs_are_refused(self):
        """s3s-fs answers with 500 if more last bytes are asked for than an object has."""
        qt.succeed("quarry", "pack", self.path)
        with Gateway(self.tmp / "gateway", *OPTIONS[0]) as gateway:
            gateway.upload(self.path, f"{test_object_stores.FOLDER}/turb.quarry")
            self.assertIn("answers 500", qt.run("quarry", "get", self.target, "--step", 2, "--output", self.tmp / "x.raw",
                                                env=gateway.environment()).err)


if __name__ == "__main__":
    unittest.main()
