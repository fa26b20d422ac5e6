"""Make .tools/spark-connector: Spark's official Kafka connector, and a virtual environment whose PySpark fits it.

The connector is built for one version of Spark, so it gets an environment of its own; Ottla is in there, too, so that
both can be tried side by side in one session. Maven fetches the jars one by one, because a registry that lacks one of
them must not hide the others: whatever is missing is named, with where to put it. OTTLA_SPARK_JARS=<directory> is
searched first. A second run does nothing.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from kafka_jars import TOOLS, install_debian_package

SPARK_VERSION: Final = "4.2.0"
CONNECTOR: Final = TOOLS / "spark-connector"
JARS: Final = CONNECTOR / "jars"
PYTHON: Final = CONNECTOR / "venv" / "bin" / "python"
ARTIFACTS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
PYTHON_PACKAGES: Final = (f"pyspark=={SPARK_VERSION}", "pyarrow>=18", "numpy>=2", "pandas>=2.2,<3")
OWN_JARS: Final = os.environ.get("OTTLA_SPARK_JARS")


def main() -> None:
    install_python()
    missing = [artifact for artifact in ARTIFACTS if not install_jar(*artifact)]
    if missing:
        names = "\n".join(f"  {group}:{name}:{version}" for group, name, version in missing)
        sys.exit(
            f"Maven cannot get these jars here:\n{names}\n"
            f"Put them into {JARS.relative_to(TOOLS.parent)}, or name their directory with OTTLA_SPARK_JARS."
        )
    print(f"Spark {SPARK_VERSION} with its Kafka connector in {CONNECTOR.relative_to(TOOLS.parent)}")


def install_python() -> None:
    """The marker is written last: an interrupted run is done again."""
    marker = CONNECTOR / f"pyspark-{SPARK_VERSION}"
    if marker.exists():
        return
    shutil.rmtree(CONNECTOR / "venv", ignore_errors=True)
    venv.create(CONNECTOR / "venv", with_pip=True)
    packages = [*PYTHON_PACKAGES, "--editable", str(TOOLS.parent)]
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
    marker.touch()


def install_jar(group: str, name: str, version: str) -> bool:
    """Whether it is there afterwards."""
    file = f"{name}-{version}.jar"
    if (JARS / file).exists():
        return True
    JARS.mkdir(parents=True, exist_ok=True)
    if OWN_JARS and (Path(OWN_JARS) / file).exists():
        shutil.copy(Path(OWN_JARS) / file, JARS / file)
        return True
    if shutil.which("mvn") is None:
        install_debian_package("maven")
    copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={group}:{name}:{version}", f"-DoutputDirectory={JARS}"]
    return subprocess.run(copy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


if __name__ == "__main__":
    main()
