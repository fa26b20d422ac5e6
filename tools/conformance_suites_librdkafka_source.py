"""librdkafka's source as it comes with the npm package @confluentinc/kafka-javascript: fetched, built, its tests listed.

The tests want more than a compiler: scripts of a Kafka release, which some call, and RapidJSON, without which some leave
themselves out. Both are laid out under .tools, so nothing is installed.
"""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.conformance_suites_outcome import KAFKA_LIBS, WORKSHOP, require_programs

PACKAGE: Final = "@confluentinc/kafka-javascript@1.10.1"
SOURCE: Final = WORKSHOP / "librdkafka"
TESTS: Final = SOURCE / "tests"
RUNNER: Final = TESTS / "test-runner"
RAPIDJSON_PACKAGE: Final = "rapidjson-dev"
RAPIDJSON: Final = WORKSHOP / "rapidjson"
KAFKA_HOME: Final = WORKSHOP / "kafka"
RUN_CLASS: Final = f'exec java -Xmx256m -cp "$CLASSPATH:{KAFKA_LIBS}/*"'
KAFKA_SCRIPTS: Final = {
    "kafka-run-class.sh": f'{RUN_CLASS} "$@"',
    "kafka-acls.sh": f'{RUN_CLASS} org.apache.kafka.tools.AclCommand "$@"',
    "kafka-topics.sh": f'{RUN_CLASS} org.apache.kafka.tools.TopicCommand "$@"',
}

# By file: what stands there, and what is built instead.
EDITS: Final = {
    # Many tests ask for three replicas, whatever they test; one node can give one.
    "test.c": (
        "rd_kafka_NewTopic_new(topicname, partition_cnt, replication_factor,",
        "rd_kafka_NewTopic_new(topicname, partition_cnt, replication_factor > 1 ? 1 : replication_factor,",
    ),
    # Four of its eight parts forbid a topic; it leaves them out by itself where it finds no way to.
    "0109-auto_create_topics.cpp": ("bool has_acl_cli = ", "bool has_acl_cli = false && "),
}

DECLARED: Final = re.compile(r"\s*(\w+),\s*([\w |]+)")
SCENARIO: Final = re.compile(r'\.scenario = "(\w+)"')  # The first, of those that name several.
FUNCTION: Final = re.compile(r"^(?:static )?(?:\w+ )?(\w*test_\w+)\(")
NOT_RUN: Final = {
    "TEST_F_LOCAL": "needs no broker: it tests librdkafka alone",
    "TEST_F_SOCKEM": "needs emulated sockets (-E leaves it out)",
    "TEST_F_MANUAL": "to be run by hand",
    "TEST_F_KNOWN_ISSUE": "librdkafka's authors know that it fails",
}
SHARE_CONSUMER: Final = "_share_consumer_"
# These forbid something and look whether it is refused: on Apache Kafka without an authorizer they fail as well.
AUTHORIZER_NEEDED: Final = "needs a broker with an authorizer"
NEED_AUTHORIZER: Final = frozenset(
    {"0115_producer_auth", "0119_consumer_auth", "do_test_CreateAcls", "do_test_DescribeAcls", "do_test_DeleteAcls"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    name: str
    scenario: str  # What kind of cluster it wants.
    reason_not_run: str

    @property
    def number(self) -> str:
        return self.name.partition("_")[0]


def prepare() -> None:
    lay_out_kafka()
    if RUNNER.exists():
        return
    require_programs("npm", "gcc", "g++", "make")
    fetch_source()
    edit_tests()
    unpack_rapidjson()
    environment = {**os.environ, "CPLUS_INCLUDE_PATH": str(RAPIDJSON / "usr" / "include")}
    make = ["make", f"-j{os.cpu_count() or 1}"]
    # Without Kerberos and libcurl: no test here speaks to either, and both need packages.
    configure = ["./configure", "--disable-gssapi", "--disable-curl"]
    for command, directory in ((configure, SOURCE), ([*make, "libs"], SOURCE), ([*make, "build"], TESTS)):
        subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL, check=True)


def fetch_source() -> None:
    WORKSHOP.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        packed = subprocess.run(
            ["npm", "pack", "--silent", "--json", PACKAGE], cwd=scratch, capture_output=True, text=True, check=True
        )
        [package] = json.loads(packed.stdout)
        with tarfile.open(Path(scratch) / package["filename"]) as archive:
            archive.extractall(scratch, filter="data")
        shutil.rmtree(SOURCE, ignore_errors=True)
        shutil.move(Path(scratch) / "package" / "deps" / "librdkafka", SOURCE)


def edit_tests() -> None:
    for name, (old, new) in EDITS.items():
        text = (TESTS / name).read_text()
        assert text.count(old) == 1, name
        (TESTS / name).write_text(text.replace(old, new))


def unpack_rapidjson() -> None:
    """From Debian, where there is one; elsewhere the tests that want it say so and skip themselves."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "download", RAPIDJSON_PACKAGE], cwd=scratch, capture_output=True, check=True)
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, RAPIDJSON], check=True)


def lay_out_kafka() -> None:
    scripts, libraries = KAFKA_HOME / "bin", KAFKA_HOME / "libs"
    scripts.mkdir(parents=True, exist_ok=True)
    if not libraries.exists():
        libraries.symlink_to(KAFKA_LIBS)
    for name, line in KAFKA_SCRIPTS.items():
        (scripts / name).write_text(f"#!/bin/sh\n{line}\n")
        (scripts / name).chmod(0o755)


def version() -> str:
    [digits] = re.findall(r"#define RD_KAFKA_VERSION\s+0x(\w{8})", (SOURCE / "src" / "rdkafka.h").read_text())
    return ".".join(str(int(digits[at : at + 2], 16)) for at in (0, 2, 4))


def declared_tests() -> list[DeclaredTest]:
    """The runner's own list: what stands between one `_TEST(` and the next."""
    listed = (TESTS / "test.c").read_text().partition("struct test tests[] = {")[2].partition("{NULL}")[0]
    return [declared(text) for text in listed.split("    _TEST(")[1:]]


def declared(text: str) -> DeclaredTest:
    found = DECLARED.match(text)
    assert found is not None, text
    reasons = [reason for flag, reason in NOT_RUN.items() if flag in found[2].split(" | ")]
    if SHARE_CONSUMER in found[1]:
        reasons.append("share groups are not served")
    if found[1] in NEED_AUTHORIZER:
        reasons.append(AUTHORIZER_NEEDED)
    scenario = SCENARIO.search(text)
    return DeclaredTest(
        name=found[1], scenario=scenario[1] if scenario else "default", reason_not_run=reasons[0] if reasons else ""
    )


def subtests(file: str) -> list[str]:
    """The functions of a test that call themselves subtests, but for those that need no broker."""
    found: dict[str, None] = {}
    function = ""
    for line in (TESTS / file).read_text().splitlines():
        if (heading := FUNCTION.match(line)) is not None:
            function = heading[1]
        elif "SUB_TEST" in line:
            found[function] = None
    return [name for name in found if not name.endswith("_local")]
