"""Fetch Apache Kafka into .tools/kafka-libs: its Java client, its command-line tools, and the broker we compare with.

Maven resolves the jars, so whatever mirror the machine's own settings name is used. Where Maven or a JDK is missing and
apt-get may be run, they are installed first. Does nothing when the pinned version is already there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
LOG4J_VERSION: Final = "2.24.3"
JARS: Final = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)
TOOLS: Final = Path(__file__).resolve().parents[1] / ".tools"
KAFKA_LIBS: Final = TOOLS / "kafka-libs"

DEPENDENCY: Final = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>kafka-libs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""


def install_kafka() -> None:
    if shutil.which("javac") is None:
        install_debian_package("default-jdk-headless")
    if (KAFKA_LIBS / f"kafka-tools-{KAFKA_VERSION}.jar").exists():
        return
    if shutil.which("mvn") is None:
        install_debian_package("maven")
    TOOLS.mkdir(exist_ok=True)
    copy_jars()


def copy_jars() -> None:
    """Fetch beside the old ones, then swap: an interrupted run leaves nothing half made."""
    with tempfile.TemporaryDirectory(dir=TOOLS) as directory:
        pom = Path(directory) / "pom.xml"
        pom.write_text(POM.format("".join(DEPENDENCY.format(*jar) for jar in JARS)))
        fetched = Path(directory) / "libs"
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        subprocess.run(command, check=True)
        shutil.rmtree(KAFKA_LIBS, ignore_errors=True)
        fetched.rename(KAFKA_LIBS)


def install_debian_package(package: str) -> None:
    """Install a Debian package, or say in one sentence what a person has to do."""
    apt_get = shutil.which("apt-get")
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if apt_get is None or (prefix and shutil.which("sudo") is None):
        sys.exit(f"{package} is needed and apt-get cannot be run here: install {package} and run this again.")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [*prefix, apt_get, "install", "-y", "--no-install-recommends", package]
    if subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
        subprocess.run([*prefix, apt_get, "update"], env=environment, stdout=subprocess.DEVNULL, check=True)
        subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=True)
